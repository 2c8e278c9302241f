package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
)

func tokenCommand(a *app) *cobra.Command {
	return a.group("token", "Make, list, limit and revoke the tokens of a server",
		tokenCreateCommand(a), tokenListCommand(a), tokenLimitCommand(a), tokenRevokeCommand(a))
}

func tokenCreateCommand(a *app) *cobra.Command {
	var rights []string
	var t duly.Token
	var pool string
	cmd := a.command("create --rights RIGHTS", "Make a token and print its secret, this once",
		`The token is good for one namespace (--namespace), or for all of them ('*'). produce pushes and cancels, consume
reserves and settles, admin does both and everything else. Only a hash of the secret is stored. --pool says in which of
the server's pools the namespace is to be; without it, it stays where it is.`,
		`  duly token create --rights produce --description 'web shop'
  duly token create --namespace shop --rights produce,consume --limit-produce 1000 --limit-per 1m
  duly token create --namespace shop --pool orders --rights produce
  DULY_TOKEN=$(duly token create --namespace '*' --rights admin)`,
		func(ctx context.Context, p *printer, _ []string) (err error) {
			if t.Rights, err = parseRights(rights); err != nil {
				return err
			}
			return a.withNewAdmin(ctx, func(admin Admin, at place) error {
				t.Namespace = at.namespace
				secret, err := admin.CreateTokenIn(ctx, pool, t)
				err = adviseOn(duly.CodeConflict, err, "see where it is: %s pool status %s", a.program(), shellQuote(t.Namespace))
				if err != nil {
					return err
				}
				if t.Hash, _ = auth.Hash(secret); p.json {
					p.line(wire.MadeTokenForm.Append(nil, wire.Token{Secret: secret, Token: t}))
					return nil
				}
				p.printf("%s\n", secret)
				a.remark("for namespace " + t.Namespace + " with " + strings.Join(t.Rights.Names(), ", ") + "; it is not shown again")
				return nil
			})
		})
	cmd.Args = noArgs
	f := cmd.Flags()
	f.StringSliceVar(&rights, "rights", nil, "`rights`: produce, consume, admin, or several with commas")
	f.StringVar(&t.Description, "description", "", "what the token is for, as a `text`")
	f.StringVar(&pool, "pool", "", "`name` of the server's pool that the namespace is to be in")
	limitFlags(cmd, &t.Limits)
	fixed(cmd, "rights", "produce", "consume", "admin", "produce,consume")
	return cmd
}

// limitFlags are those of a token's limits.
func limitFlags(cmd *cobra.Command, l *duly.Limits) {
	f := cmd.Flags()
	f.Var(countFlag{to: &l.Produce}, "limit-produce", "how often the token may push in one window")
	f.Var(countFlag{to: &l.Consume}, "limit-consume", "how often the token may reserve in one window")
	f.Var(durationFlag{to: &l.Per, least: duly.MinLimitWindow, most: duly.MaxLimitWindow}, "limit-per", "how long a window is that begins with the first call in it")
}

// everyRight lists what --rights takes.
const everyRight = "produce, consume, admin"

func parseRights(names []string) (duly.Right, error) {
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	rights, err := duly.ParseRights(names)
	if err == nil && rights == 0 {
		err = misusef("say what the token may do: --rights %s", everyRight)
	}
	return rights, err
}

func tokenListCommand(a *app) *cobra.Command {
	cmd := a.command("list", "List tokens by their IDs",
		`Lists the tokens of all namespaces, or of the one of --namespace ('*' for those that are good everywhere). A token's
secret is not known any more; its ID, of which the beginning is shown, is enough to limit and to revoke it.`,
		`  duly token list
  duly token list --namespace shop
  duly token list --json | jq -r 'select(.rights | index("admin")) | .id'`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withAdmin(ctx, func(admin Admin, _ place) error {
				t := p.newTable("ID", "NAMESPACE", "RIGHTS", "MADE", "LIMITS", "DESCRIPTION")
				return eachToken(ctx, admin, a.namespace, func(tokens []duly.Token) error {
					for i := range tokens {
						if p.json {
							p.line(wire.MadeTokenForm.Append(nil, wire.Token{Token: tokens[i]}))
						} else {
							t.addToken(&tokens[i])
						}
					}
					t.flush()
					return p.flush()
				})
			})
		})
	cmd.Args = noArgs
	return cmd
}

// eachToken hands on the tokens of a namespace, "" for all, page by page.
func eachToken(ctx context.Context, admin Admin, namespace string, do func([]duly.Token) error) error {
	var p duly.PageParams
	for {
		page, err := admin.Tokens(ctx, namespace, p)
		if err == nil {
			err = do(page.Tokens)
		}
		if p.Cursor = page.Next; err != nil || p.Cursor == "" {
			return err
		}
	}
}

// shownID is how much of a token's ID a table shows: enough to be the only one.
const shownID = 12

func (t *table) addToken(token *duly.Token) {
	rights := strings.Join(token.Rights.Names(), ",")
	t.add(txt(wire.TokenID(token.Hash)[:shownID]), txt(token.Namespace), txt(rights), txt(relative(token.CreatedAt, t.p.now())),
		txt(limitsText(token.Limits)), txt(token.Description))
}

func limitsText(l duly.Limits) string {
	var parts []string
	for _, right := range []duly.Right{duly.RightProduce, duly.RightConsume} {
		if n := l.Of(right); n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", countText(int64(n)), right.Names()[0]))
		}
	}
	if parts == nil {
		return ""
	}
	return strings.Join(parts, ", ") + " in " + duly.FormatDuration(l.Per)
}
