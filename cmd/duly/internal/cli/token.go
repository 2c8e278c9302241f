package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
)

func tokenCommand(a *app) *cobra.Command {
	return a.group("token", "Create, list, limit and revoke the tokens of a server",
		tokenCreateCommand(a), tokenListCommand(a), tokenLimitCommand(a), tokenRevokeCommand(a))
}

func tokenCreateCommand(a *app) *cobra.Command {
	var rights []string
	var t contract.Token
	var pool string
	cmd := a.command("create --rights RIGHTS", "Create a token and print its secret once",
		`The token is valid for one namespace (--namespace), or for all ('*'). The right produce allows push and cancel,
consume allows reserve and settle, admin allows everything. Only a hash of the secret is stored. --pool assigns the
namespace to one of the server's pools.`,
		`  duly token create --rights produce --description 'web shop'
  duly token create --namespace shop --rights produce,consume --limit-produce 1000 --limit-per 1m
  duly token create --namespace shop --pool orders --rights produce
  DULY_TOKEN=$(duly token create --namespace '*' --rights admin)`,
		func(ctx context.Context, p *printer, _ []string) (err error) {
			if t.Rights, err = parseRights(rights); err != nil {
				return err
			}
			return a.withNewAdmin(ctx, func(admin Admin, at endpoint) error {
				// The namespace of a server's URL counts too, not only the flag.
				t.Namespace = at.namespace
				secret, err := admin.CreateTokenIn(ctx, pool, t)
				err = withHintFor(duly.CodeConflict, err, "see its pool: %s pool status %s", a.program(), shellQuote(t.Namespace))
				if err != nil {
					return err
				}
				if t.Hash, _ = auth.Hash(secret); p.json {
					p.line(wire.MadeTokenForm.Append(nil, wire.Token{Secret: secret, Token: t}))
					return nil
				}

				// Standard output gets only the secret, so that a shell can store it in a variable.
				p.printf("%s\n", secret)
				a.noteOnTerminal("for namespace %s with %s; it is not shown again",
					t.Namespace, strings.Join(t.Rights.Names(), ", "))
				return nil
			})
		})

	cmd.Args = noArgs
	f := cmd.Flags()
	f.StringSliceVar(&rights, "rights", nil, "`rights`: produce, consume, admin, or several with commas")
	f.StringVar(&t.Description, "description", "", "purpose of the token, a `text`")
	f.StringVar(&pool, "pool", "", "`name` of the server's pool for the namespace")
	limitFlags(cmd, &t.Limits)
	completeValues(cmd, "rights", "produce", "consume", "admin", "produce,consume")
	return cmd
}

// limitFlags adds the flags for a token's limits.
func limitFlags(cmd *cobra.Command, l *contract.Limits) {
	f := cmd.Flags()
	f.Var(countFlag{to: &l.Produce}, "limit-produce", "maximum calls that push in one window")
	f.Var(countFlag{to: &l.Consume}, "limit-consume", "maximum calls that reserve in one window")
	f.Var(durationFlag{to: &l.Per, min: contract.MinLimitWindow, max: contract.MaxLimitWindow}, "limit-per",
		"duration of a window, which begins with its first call")
}

// allRights lists the values of --rights.
const allRights = "produce, consume, admin"

func parseRights(names []string) (contract.Right, error) {
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	rights, err := contract.ParseRights(names)
	// Otherwise the command might create the engine's file before the engine refuses the token.
	if err == nil && rights == 0 {
		err = usageErrorf("the rights are missing; give --rights %s", allRights)
	}
	return rights, err
}

func tokenListCommand(a *app) *cobra.Command {
	cmd := a.command("list", "List tokens by their IDs",
		`Lists the tokens of all namespaces, or of --namespace ('*' for tokens that are valid in all). A token's secret is
not stored. The beginning of its ID, which is shown, is sufficient to limit and revoke it.`,
		`  duly token list
  duly token list --namespace shop
  duly token list --json | jq -r 'select(.rights | index("admin")) | .id'`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withAdmin(ctx, func(admin Admin, _ endpoint) error {
				t := p.newTable("ID", "NAMESPACE", "RIGHTS", "CREATED", "LIMITS", "DESCRIPTION")
				return eachToken(ctx, admin, a.namespace, func(tokens []contract.Token) error {
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

// eachToken calls do for each page of a namespace's tokens. "" is all namespaces.
func eachToken(ctx context.Context, admin Admin, namespace string, do func([]contract.Token) error) error {
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

// shownID is the number of digits of a token's ID in a table, which are unique.
const shownID = 12

func (t *table) addToken(token *contract.Token) {
	rights := strings.Join(token.Rights.Names(), ",")
	t.add(txt(wire.TokenID(token.Hash)[:shownID]), txt(token.Namespace), txt(rights),
		txt(relative(token.CreatedAt, t.p.now())), txt(limitsText(token.Limits)), txt(token.Description))
}

func limitsText(l contract.Limits) string {
	var parts []string
	for _, right := range []contract.Right{contract.RightProduce, contract.RightConsume} {
		if n := l.Of(right); n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", countText(int64(n)), right.Names()[0]))
		}
	}
	if parts == nil {
		return ""
	}
	return strings.Join(parts, ", ") + " in " + duly.FormatDuration(l.Per)
}

func tokenLimitCommand(a *app) *cobra.Command {
	var l contract.Limits
	var none bool
	cmd := a.command("limit ID…", "Limit the rate of pushes and reserves of tokens",
		`Replaces all limits of the tokens. A limit that is not given is removed. It counts calls, not jobs, of all servers
on the engine together, in windows that begin with their first call. A call beyond a limit fails with limited and the
time to retry. An ID may be shortened.`,
		`  duly token limit 4f0c1d2e3a5b --limit-produce 1000 --limit-consume 100 --limit-per 1m
  duly token limit 4f0c1d2e3a5b --none`,
		func(ctx context.Context, p *printer, args []string) error {
			// Limits together with --none, or neither of them, do not say what the caller wants.
			if none == (l != contract.Limits{}) {
				return usageErrorf("give limits (--limit-produce, --limit-consume, --limit-per), or --none")
			}
			return a.eachTokenID(ctx, p, args, "limited token", func(admin Admin, hash [32]byte) error {
				return admin.LimitToken(ctx, hash, l)
			})
		})

	cmd.Args = takesArgs("ID…")
	limitFlags(cmd, &l)
	cmd.Flags().BoolVar(&none, "none", false, "remove all limits")
	return cmd
}

func tokenRevokeCommand(a *app) *cobra.Command {
	cmd := a.command("revoke ID…", "Revoke tokens at once, on all servers",
		`All servers of the engine refuse a revoked token within a second, and end the calls that wait with it. This cannot
be undone. Tokens are named by their IDs, which may be shortened (see: duly token list), or by their secrets. "-"
reads them from the lines of standard input. The last token that can create others cannot be revoked.`,
		`  duly token revoke 4f0c1d2e3a5b
  duly token revoke - < leaked-tokens.txt
  duly token list --namespace shop --json | jq -r .id | duly token revoke -`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.eachTokenID(ctx, p, args, "revoked token", func(admin Admin, hash [32]byte) error {
				return withHintFor(duly.CodeConflict, admin.DeleteToken(ctx, hash),
					"to create one: %s token create --namespace '*' --rights admin", a.program())
			})
		})

	cmd.Args = takesArgs("ID…")
	return cmd
}

// minIDLength is the minimum number of digits of an ID. The log shows as many.
const minIDLength = 8

// eachTokenID calls do for each of several tokens. done is the participle that it prints.
func (a *app) eachTokenID(
	ctx context.Context, p *printer, args []string, done string, do func(admin Admin, hash [32]byte) error,
) error {
	ids, err := a.tokenIDs(args)
	if err != nil {
		return err
	}
	return a.withAdmin(ctx, func(admin Admin, _ endpoint) error {
		return a.forEach(ctx, p, ids, done, func(id string) error {
			hash, err := findToken(ctx, admin, id)
			if err == nil {
				err = do(admin, hash)
			}
			return withHintFor(duly.CodeNotFound, err, "see the tokens: %s token list", a.program())
		})
	})
}

// tokenIDs returns the IDs of the arguments. The argument "-" is replaced by the lines of standard
// input, and a secret by its ID, so that no secret is printed.
func (a *app) tokenIDs(args []string) (ids []string, err error) {
	for _, arg := range args {
		if arg != "-" {
			ids = append(ids, a.tokenID(arg))
			continue
		}
		scan := bufio.NewScanner(a.env.Stdin)
		for scan.Scan() {
			if text := strings.TrimSpace(scan.Text()); text != "" {
				ids = append(ids, a.tokenID(text))
			}
		}
		if err := scan.Err(); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (a *app) tokenID(text string) string {
	// A secret as an argument may appear in an error, so it is hidden first.
	if strings.HasPrefix(text, auth.Prefix) {
		a.hide(text)
	}
	if hash, ok := auth.Hash(text); ok {
		return wire.TokenID(hash)
	}
	return strings.ToLower(text)
}

// findToken finds the token whose ID begins with id.
func findToken(ctx context.Context, admin Admin, id string) (found [32]byte, err error) {
	// A whole ID needs no search.
	if hash, err := wire.ParseTokenID(id); err == nil {
		return hash, nil
	}
	if len(id) < minIDLength || strings.Trim(id, "0123456789abcdef") != "" {
		return found, contract.Invalid("id", "is not a token's ID; give at least %d digits of it, as duly token list shows them",
			minIDLength)
	}

	n := 0
	err = eachToken(ctx, admin, "", func(tokens []contract.Token) error {
		for i := range tokens {
			// The search continues after a match, because the beginning must be unique.
			if strings.HasPrefix(wire.TokenID(tokens[i].Hash), id) {
				found = tokens[i].Hash
				n++
			}
		}
		return nil
	})
	switch {
	case err == nil && n == 0:
		err = contract.Errorf(duly.CodeNotFound, "no token has an ID that begins with %s", id)
	case err == nil && n > 1:
		err = contract.Invalid("id", "%s is the beginning of %d IDs; give more digits", id, n)
	}
	return found, err
}
