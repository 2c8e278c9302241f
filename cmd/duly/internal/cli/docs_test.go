package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command in docs/command-line.md, in docs/troubleshooting.md and in the examples of
// the help exists, with its flags and enough arguments.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	var texts []string

	for _, page := range []string{"docs/command-line.md", "docs/troubleshooting.md", "docs/backup.md", "README.md"} {
		text, err := os.ReadFile("../../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}

	root := newRoot(&app{env: newRig(t).env(nil, nil)})
	for cmd := range commandsBelow(root) {
		texts = append(texts, cmd.Example)
	}
	checked := 0

	for _, text := range texts {
		for _, e := range findExamples(text) {
			checked++
			if err := parseExample(t, e); err != nil {
				t.Errorf("duly %s: %v", strings.Join(e.words, " "), err)
			}
		}
	}

	if checked < 80 {
		t.Errorf("only %d commands were found", checked)
	}
}

func TestDocumentedCommandErrors(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"duly pusch q", "duly push q --dely 3s", "duly push", "duly job get q",
		"duly push q --delay soon", "x `duly nothing` y",
	} {
		for _, e := range findExamples(line) {
			if parseExample(t, e) == nil {
				t.Errorf("%q is valid", line)
			}
		}
	}
}

// C15.28: bench is one of the commands.
func TestCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(&app{env: newRig(t).env(nil, nil)})
	found := map[string]bool{}

	for cmd := range commandsBelow(root) {
		if !cmd.HasSubCommands() && !cmd.Hidden && cmd.Name() != "help" {
			path := cmd.CommandPath()
			found[path] = true
			if !strings.Contains(string(page), path) {
				t.Errorf("docs/command-line.md does not show %s", path)
			}
		}
	}

	for _, want := range strings.Fields(`serve push work reserve ack nack release bury extend peek queues stats top
		pause resume check backup restore bench completion version`) {
		if !found["duly "+want] {
			t.Errorf("no such command: duly %s", want)
		}
	}
}

// commandsBelow walks over every command.
func commandsBelow(cmd *cobra.Command) func(yield func(*cobra.Command) bool) {
	return func(yield func(*cobra.Command) bool) {
		for _, sub := range cmd.Commands() {
			if !yield(sub) {
				return
			}
			for below := range commandsBelow(sub) {
				if !yield(below) {
					return
				}
			}
		}
	}
}

// example is a command in a text.
type example struct {
	words []string
	named bool // it is in running text, without its arguments
}

var (
	word = regexp.MustCompile("'[^']*'|\"[^\"]*\"|[^\\s'\"|<>#)`]+|[|<>#)`]")
	// A command begins a line or follows a shell operator.
	commandStart = regexp.MustCompile("(?m)(^ *|[|] |[$(]\\(|=)duly |`duly ")
)

// findExamples returns the commands in a text. A shell operator ends a command.
func findExamples(text string) (examples []example) {
	for _, at := range commandStart.FindAllStringIndex(text, -1) {
		line, _, _ := strings.Cut(text[at[1]:], "\n")
		e := example{named: text[at[0]] == '`'}
		for _, w := range word.FindAllString(line, -1) {
			if strings.Contains("|<>#)`", w) {
				break
			}
			e.words = append(e.words, strings.Trim(w, `'"`))
		}
		if len(e.words) > 0 && e.words[0] != "COMMAND" && e.words[0] != "CODE:" {
			examples = append(examples, e)
		}
	}
	return examples
}

// parseExample validates the command line of an example without running it.
func parseExample(t *testing.T, e example) error {
	root := newRoot(&app{env: newRig(t).env(nil, nil)})
	cmd, rest, err := root.Find(e.words)
	if err != nil {
		return err
	}
	if cmd == root && len(rest) > 0 {
		return usageErrorf("no such command %q", rest[0])
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if e.named {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
