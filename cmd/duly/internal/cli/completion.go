package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func completionCommand(a *app) *cobra.Command {
	cmd := a.command("completion bash|zsh|fish|powershell", "Print the completion script of a shell",
		`Completes commands, flags and states. It completes names of queues if the server answers quickly.`,
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
			return usageErrorf("no completion for %q; use bash, zsh, fish or powershell", args[0])
		})

	cmd.Args = takesArgs("SHELL")
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd.ValidArgsFunction = cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp)
	return cmd
}
