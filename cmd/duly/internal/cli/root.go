package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly/open"
)

// section is a section of the list of commands in the help.
type section struct {
	title    string
	commands []*cobra.Command
}

// commands returns all subcommands, in the sections of the help.
func commands(a *app) []section {
	return []section{
		{"Serve, push and work:", []*cobra.Command{serveCommand(a), pushCommand(a), workCommand(a), cancelCommand(a)}},
		{"Handle jobs by hand:", []*cobra.Command{
			reserveCommand(a), ackCommand(a), nackCommand(a), releaseCommand(a), buryCommand(a), extendCommand(a),
		}},
		{"Inspect and change:", []*cobra.Command{
			queuesCommand(a), statsCommand(a), topCommand(a), peekCommand(a), jobsCommand(a), jobCommand(a), keyCommand(a),
			deadCommand(a), operationCommand(a), pauseCommand(a), resumeCommand(a), queueCommand(a),
		}},
		{"Push jobs by the clock:", []*cobra.Command{scheduleCommand(a)}},
		{"Publish to consumer groups:", []*cobra.Command{topicCommand(a)}},
		{"Send jobs to URLs:", []*cobra.Command{targetCommand(a)}},
		{"Operate a server:", []*cobra.Command{
			configCommand(a), tokenCommand(a), checkCommand(a), backupCommand(a), restoreCommand(a), importCommand(a),
			poolCommand(a), benchCommand(a), healthCommand(a), uiCommand(a),
		}},
		{"This program:", []*cobra.Command{completionCommand(a), versionCommand(a)}},
	}
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "duly",
		Short: "A job queue that delivers every job at its time, at least once, and never early",
		Long: `duly is a job queue that delivers every job at its time, at least once, and never early.

The commands use the engine of --url: a file (sqlite:PATH), Redis (redis://HOST, redis+cluster://HOST and others) or a
server (http://TOKEN@HOST/NAMESPACE).
Without --url they find this machine's server by the files in its data folder.`,
		Example: `  duly serve
  duly push emails '{"to": "ada"}' --delay 30m
  duly work emails --exec ./send-mail`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageErrorf("no such command %q%s", args[0], suggestCommands(cmd, args[0]))
			}
			return cmd.Help()
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}

	root.SetIn(a.env.Stdin)
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagParseError(err) })

	a.globalFlags(root)
	a.versionFlag(root)
	for _, s := range commands(a) {
		root.AddGroup(&cobra.Group{ID: s.title, Title: s.title})
		for _, cmd := range s.commands {
			cmd.GroupID = s.title
		}
		root.AddCommand(s.commands...)
		root.SetHelpCommandGroupID(s.title) // puts help into the last section
	}
	return root
}

func (a *app) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.url, "url", "",
		"engine `URL`: sqlite:PATH, redis://HOST or http(s)://TOKEN@HOST/NAMESPACE (DULY_URL; default: this machine's)")
	f.StringVar(&a.adminURL, "admin-url", "",
		"admin `URL` of a server (DULY_ADMIN_URL; default: that of this machine's server)")
	f.StringVarP(&a.namespace, "namespace", "n", "", "`namespace` (default: the URL's, else \"default\")")
	f.StringVar(&a.data, "data", "",
		"`folder` of this machine's server (DULY_DATA; default: ./duly-data, then the user's state folder)")
	a.tlsFlags(f)
	completePrefixes(root, "url", open.Schemes())
	f.BoolVar(&a.json, "json", false, "print JSON, one value per line")
}

// suggestCommands returns the commands that are similar to a misspelled word.
func suggestCommands(cmd *cobra.Command, word string) string {
	const short = 3
	cmd.SuggestionsMinimumDistance = 2
	if len(word) <= short { // two changes turn such a word into any other short word
		cmd.SuggestionsMinimumDistance = 1
	}
	if similar := cmd.SuggestionsFor(word); len(similar) > 0 {
		return ", did you mean " + strings.Join(similar, " or ") + "?"
	}
	return ""
}
