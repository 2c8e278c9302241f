package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/open"
)

// healthTimeout limits the wait for a server's answer.
const healthTimeout = 5 * time.Second

func healthCommand(a *app) *cobra.Command {
	cmd := a.command("health", "Check whether the server answers",
		`Checks whether this machine's server, or that of --url, and its engine answer. The exit status is 0 if they do, else
1: for the health check of a container. It needs no token.`,
		`  duly health
  duly health --url https://queue.example.com:7777 --ca ca.pem`,
		func(ctx context.Context, p *printer, _ []string) error {
			at, err := a.findEndpoint()
			if err != nil {
				return err
			}

			// A file has no process that could answer.
			if !isRemote(at.url) {
				return usageErrorf("%s is not a server; set --url to http(s)://HOST", open.Redact(at.url))
			}
			secure, err := a.tlsConfig(at.certFile)
			if err != nil {
				return err
			}

			cfg := httpengine.Config{URL: at.url, TLS: secure, Timeout: healthTimeout}
			if err := httpengine.Ready(ctx, cfg); err != nil {
				return a.withConnectHint(err, at)
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
