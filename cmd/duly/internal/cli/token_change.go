package cli

import (
	"bufio"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
)

func tokenLimitCommand(a *app) *cobra.Command {
	var l duly.Limits
	var none bool
	cmd := a.command("limit ID…", "Limit how often tokens may push and reserve",
		`Replaces all limits of the tokens; what is not given is not limited. Calls are counted, not jobs, for all servers on the
engine together, in windows that begin with the first call in them. Beyond a limit a call is refused as limited, and
told when to come again. An ID may be cut short.`,
		`  duly token limit 4f0c1d2e3a5b --limit-produce 1000 --limit-consume 100 --limit-per 1m
  duly token limit 4f0c1d2e3a5b --none`,
		func(ctx context.Context, p *printer, args []string) error {
			if none == (l != duly.Limits{}) {
				return misusef("give limits (--limit-produce, --limit-consume, --limit-per), or --none")
			}
			return a.eachTokenID(ctx, p, args, "limited token", func(admin Admin, hash [32]byte) error {
				return admin.LimitToken(ctx, hash, l)
			})
		})
	cmd.Args = wants("ID…")
	limitFlags(cmd, &l)
	cmd.Flags().BoolVar(&none, "none", false, "take all limits away")
	return cmd
}

func tokenRevokeCommand(a *app) *cobra.Command {
	cmd := a.command("revoke ID…", "Revoke tokens, at once and everywhere",
		`A revoked token opens nothing any more, on any server of the engine a second later, and what waits with it ends. It
does not come back. Tokens are named by their IDs, which may be cut short (see: duly token list), or by their secrets;
"-" reads either from the lines of standard input. The last token that may make others is kept.`,
		`  duly token revoke 4f0c1d2e3a5b
  duly token revoke - < leaked-tokens.txt
  duly token list --namespace shop --json | jq -r .id | duly token revoke -`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.eachTokenID(ctx, p, args, "revoked token", func(admin Admin, hash [32]byte) error {
				return adviseOn(duly.CodeConflict, admin.DeleteToken(ctx, hash), "%s token create --namespace '*' --rights admin", a.program())
			})
		})
	cmd.Args = wants("ID…")
	return cmd
}

// leastID is how much of an ID must be given: the log shows as much.
const leastID = 8

// eachTokenID does one thing to each of several tokens.
func (a *app) eachTokenID(ctx context.Context, p *printer, args []string, done string, do func(admin Admin, hash [32]byte) error) error {
	ids, err := a.tokenIDs(args)
	if err != nil {
		return err
	}
	return a.withAdmin(ctx, func(admin Admin, _ place) error {
		return a.each(ctx, p, ids, done, func(id string) error {
			hash, err := findToken(ctx, admin, id)
			if err == nil {
				err = do(admin, hash)
			}
			return adviseOn(duly.CodeNotFound, err, "see which there are: %s token list", a.program())
		})
	})
}

// tokenIDs are the arguments, and for "-" the lines of standard input, with
// the ID in the place of a secret. Nothing that may be a secret is ever printed.
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
	if strings.HasPrefix(text, auth.Prefix) {
		a.hide(text)
	}
	if hash, ok := auth.Hash(text); ok {
		return wire.TokenID(hash)
	}
	return strings.ToLower(text)
}

// findToken finds the one token whose ID begins so.
func findToken(ctx context.Context, admin Admin, id string) (found [32]byte, err error) {
	if hash, err := wire.ParseTokenID(id); err == nil {
		return hash, nil
	}
	if len(id) < leastID || strings.Trim(id, "0123456789abcdef") != "" {
		return found, duly.Invalid("id", "is not that of a token; give at least %d of its digits, as the list of tokens shows them", leastID)
	}
	n := 0
	err = eachToken(ctx, admin, "", func(tokens []duly.Token) error {
		for i := range tokens {
			if strings.HasPrefix(wire.TokenID(tokens[i].Hash), id) {
				found = tokens[i].Hash
				n++
			}
		}
		return nil
	})
	switch {
	case err == nil && n == 0:
		err = duly.Errorf(duly.CodeNotFound, "there is no token whose ID begins with %s", id)
	case err == nil && n > 1:
		err = duly.Invalid("id", "%s is the beginning of %d tokens' IDs; give more of it", id, n)
	}
	return found, err
}
