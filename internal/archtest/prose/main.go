package main

import (
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
)

func main() {
	list := flag.Bool("list", false, "print each place that counts")
	seed := flag.Uint64("sample", 0, "print random comments, errors and names of tests for readers, chosen by this `seed`")
	root := flag.String("root", ".", "the root of the tree")
	flag.Parse()

	m, err := measureTree(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		// The status 1 is for figures out of bounds.
		os.Exit(2)
	}
	// A sample is for readers, so it has no bounds.
	if *seed != 0 {
		m.sample.print(os.Stdout, *seed)
		return
	}
	if *list {
		for _, p := range m.places {
			fmt.Println(p)
		}
	}

	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tVALUE\tBOUND")
	good := true
	for _, f := range m.figures() {
		mark := ""
		if !f.inBounds() {
			mark, good = "  out of bounds", false
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", f.name, f.text(), f.boundText(), mark)
	}
	if err := w.Flush(); err != nil || !good {
		os.Exit(1)
	}
}
