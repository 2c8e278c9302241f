package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/open"
)

// healthWithin bounds how long a server may take to say how it is.
const healthWithin = 5 * time.Second

func healthCommand(a *app) *cobra.Command {
	cmd := a.command("health", "Tell whether the server answers",
		`Asks the server of this machine, or that of --url, whether it and its engine answer. Exit status 0 if they do, else 1: for
the health check of a container. It needs no token.`,
		`  duly health
  duly health --url https://queue.example.com:7777 --ca ca.pem`,
		func(ctx context.Context, p *printer, _ []string) error {
			at, err := a.find()
			if err != nil {
				return err
			}
			if !remote(at.url) {
				return misusef("%s is no server; give http(s)://HOST to --url", open.Redact(at.url))
			}
			secure, err := a.trust(at.left)
			if err != nil {
				return err
			}
			if err := httpengine.Ready(ctx, httpengine.Config{URL: at.url, TLS: secure, Timeout: healthWithin}); err != nil {
				return a.unreachable(err, at)
			}
			if p.json {
				return p.value(map[string]string{"status": "ok"})
			}
			p.printf("ok\n")
			return nil
		})
	cmd.Args = noArgs
	return cmd
}
