package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func completionCommand(a *app) *cobra.Command {
	cmd := a.command("completion bash|zsh|fish|powershell", "Print the completion script of a shell",
		`Completes commands, flags, states, and the names of queues where the server answers quickly.`,
		`  source <(duly completion bash)
  duly completion zsh > "${fpath[1]}/_duly"
  duly completion fish > ~/.config/fish/completions/duly.fish
  duly completion powershell | Out-String | Invoke-Expression`,
		func(_ context.Context, p *printer, args []string) error {
			switch args[0] {
			case "bash":
				return a.root.GenBashCompletionV2(p.out, true)
			case "zsh":
				return a.root.GenZshCompletion(p.out)
			case "fish":
				return a.root.GenFishCompletion(p.out, true)
			case "powershell":
				return a.root.GenPowerShellCompletionWithDesc(p.out)
			}
			return misusef("there is no completion for %q", args[0])
		})
	cmd.Args = wants("SHELL")
	cmd.ValidArgsFunction = cobra.FixedCompletions([]string{"bash", "zsh", "fish", "powershell"}, cobra.ShellCompDirectiveNoFileComp)
	return cmd
}
