package cli

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"
)

// loginCoder is the part of an Admin that opens the dashboard. Only a server has one.
type loginCoder interface {
	// CreateLoginCode returns the path of a page on the admin address that opens one session.
	CreateLoginCode(ctx context.Context) (path string, err error)
}

func uiCommand(a *app) *cobra.Command {
	printOnly := false
	cmd := a.command("ui", "Open the dashboard of a server in a browser",
		`Prints a link to the dashboard of this machine's server, or of that of --admin-url, and opens it in a browser. The
link opens one session, within a minute, with the rights of your token: nobody has to paste a token. The token needs
the right admin for '*'.

Other users of this machine may see the arguments of a browser that starts. If you do not trust them, use --print and
paste the link.`,
		`  duly ui
  duly ui --print
  DULY_TOKEN=… duly ui --url https://queue.example.com:7777 --admin-url https://queue.example.com:7778`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withAdmin(ctx, func(admin Admin, at endpoint) error {
				link, err := loginLink(ctx, admin, at)
				if err != nil {
					return err
				}
				if p.json {
					return p.value(map[string]string{"url": link})
				}
				p.printf("%s\n", link)
				a.noteOnTerminal("opens one session, within a minute")
				if err := p.flush(); err != nil || printOnly || a.env.Browse == nil {
					return err
				}
				if err := a.env.Browse(link); err != nil {
					a.noteOnTerminal("no browser starts here; open the link in one")
				}
				return nil
			})
		})

	cmd.Args = noArgs
	cmd.Flags().BoolVar(&printOnly, "print", false, "only print the link")
	return cmd
}

// loginLink returns a new link to the dashboard, without the token that the admin URL may have.
func loginLink(ctx context.Context, admin Admin, at endpoint) (string, error) {
	server, ok := admin.(loginCoder)
	if !ok {
		return "", usageErrorf("an engine without a server has no dashboard; set --url and --admin-url to a server's")
	}
	path, err := server.CreateLoginCode(ctx)
	if err != nil {
		return "", err
	}
	page, err := url.Parse(path)
	if err != nil {
		return "", err
	}
	base, err := url.Parse(at.adminURL)
	if err != nil {
		return "", err
	}
	base.User = nil
	return base.ResolveReference(page).String(), nil
}
