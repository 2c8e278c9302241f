package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	target  string
	n       int
	seed    string
	time    time.Duration
	limit   time.Duration
	results string
	list    bool
	retry   bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("mutate", flag.ContinueOnError)
	f.StringVar(&o.target, "target", "", "only this target (see -list)")
	f.IntVar(&o.n, "n", 20, "mutants per target")
	f.StringVar(&o.seed, "seed", "1", "draws the sample")
	f.DurationVar(&o.time, "time", 30*time.Minute, "begin no mutant after this time")
	f.DurationVar(&o.limit, "limit", time.Minute, "the least time that a package's tests get before they count as hung")
	f.StringVar(&o.results, "results", "bin/mutants.jsonl", "file of the verdicts; a later run continues with it")
	f.BoolVar(&o.list, "list", false, "print the number of mutants of each target and end")
	f.BoolVar(&o.retry, "retry", false, "test the sample's mutants again that survived or hung")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || f.NArg() > 0 {
		return o, errors.New("usage: mutate [flags], -n at least 1; -h lists the flags")
	}

	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}

	picked, err := pick(o.target)
	if err != nil {
		return err
	}
	if o.list {
		return list(root, picked, out)
	}

	reasons, err := survivors(survivorsText)
	if err != nil {
		return err
	}
	known, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer known.file.Close()
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)

	s := &session{
		options: o, out: out, known: known, reasons: reasons, began: time.Now(),
		runner: &runner{root: root, scratch: scratch, limit: o.limit, usual: map[suite]time.Duration{},
			folders: map[string][]string{}, killers: known.killers()},
	}

	return s.all(ctx, picked)
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}

	return strings.TrimSpace(string(out)), nil
}

// pick returns the named target, or all of them for "".
func pick(name string) ([]target, error) {
	if name == "" {
		return targets, nil
	}
	var names []string
	for _, t := range targets {
		if t.name == name {
			return []target{t}, nil
		}
		names = append(names, t.name)
	}

	return nil, fmt.Errorf("no target %q; there are %s", name, strings.Join(names, ", "))
}

func list(root string, picked []target, out io.Writer) error {
	for _, t := range picked {
		all, err := t.mutants(root)
		if err != nil {
			return err
		}
		var tests []string
		for _, s := range t.tests {
			tests = append(tests, s.pkg)
		}
		fmt.Fprintf(out, "%-14s %6d mutants, tests of %s\n", t.name, len(all), strings.Join(tests, " "))
	}

	return nil
}

// session is one run of the command.
type session struct {
	options
	out     io.Writer
	known   *results
	reasons map[string]string
	runner  *runner
	began   time.Time
}

// all runs the samples. It alternates between the targets, so that a run that ends at its time
// limit has tested all of them.
func (s *session) all(ctx context.Context, picked []target) error {
	queues := make([][]mutant, len(picked))
	for i, t := range picked {
		all, err := t.mutants(s.runner.root)
		if err != nil {
			return err
		}
		// The whole sample is drawn, because invalid mutants need replacements.
		queues[i] = sample(all, s.seed, len(all))
	}

	valid := make([]int, len(picked))
	for left := true; left; {
		left = false
		for i, t := range picked {
			if valid[i] >= s.n || len(queues[i]) == 0 {
				continue
			}
			m := queues[i][0]
			queues[i] = queues[i][1:]
			left = true

			o, err := s.one(ctx, t, m)
			// An early end still reports the verdicts so far.
			if errors.Is(err, errTime) || ctx.Err() != nil {
				s.report(picked)
				return nil
			}
			if err != nil {
				return err
			}
			// A mutant that does not compile is replaced by the next one of the sample.
			if o != invalid {
				valid[i]++
			}
		}
	}
	s.report(picked)

	return nil
}

// errTime ends a run at its time limit.
var errTime = errors.New("the time limit is reached")

// one returns the verdict for one mutant, from the results file or by a run.
func (s *session) one(ctx context.Context, t target, m mutant) (verdict, error) {
	if r, ok := s.known.get(m); ok && (!s.retry || r.Verdict == killed || r.Verdict == invalid) {
		return r.Verdict, nil
	}
	// Known verdicts cost no time, so the limit is only for new ones.
	if time.Since(s.began) > s.time {
		return "", errTime
	}
	// It comes late, because a target whose verdicts are known needs no baseline.
	if err := s.runner.baseline(ctx, t.tests); err != nil {
		return "", err
	}

	begin := time.Now()
	o, err := s.runner.run(ctx, t, m)
	if err != nil {
		return "", err
	}
	if o.verdict == survived || o.verdict == hung {
		fmt.Fprintf(s.out, "%s %s:%d (%s)\n    %s\n", o.verdict, m.file, m.line, m.rule, m.key())
	}

	return o.verdict, s.known.put(t, m, o, time.Since(begin))
}

// report prints a table of all verdicts in the results file.
func (s *session) report(picked []target) {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer w.Flush()
	fmt.Fprintln(w, "target\tmutants\ttested\tkilled\thung\tsurvived\twith a reason\tkilled of the rest\t")
	for _, t := range picked {
		all, err := t.mutants(s.runner.root)
		if err != nil {
			fmt.Fprintf(s.out, "%s: %v\n", t.name, err)
			continue
		}

		count := map[verdict]int{}
		explained := 0
		for _, m := range all {
			r, ok := s.known.get(m)
			if !ok {
				continue
			}
			count[r.Verdict]++
			if r.Verdict == survived && s.reasons[m.key()] != "" {
				explained++
			}
		}
		// Invalid mutants never ran, so they do not count.
		tested := count[killed] + count[hung] + count[survived]
		score := "-"
		// Without a mutant to find, a share has no meaning.
		if tested > explained {
			score = fmt.Sprintf("%.0f %%", 100*float64(count[killed]+count[hung])/float64(tested-explained))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n",
			t.name, len(all), tested, count[killed], count[hung], count[survived], explained, score)
	}
}
