package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/server/lmstfy"
)

// C15.29: import lmstfy imports tokens and jobs. A second run imports nothing.
func TestImportTakesEachJobOnce(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, redistest.Password("s3cret"))
	const id, token = "01HF7YAT00041061050R000000", "01HF7YAT00041061050R000009"
	redis.Must("HSET", "m/ns", "shop", "1")
	redis.Must("HSET", "m/ns/shop", "mail", "1")
	redis.Must("SET", "j/shop/mail/"+id, "hello")
	redis.Must("LPUSH", "q/shop/mail", "\x03\x00\x1a\x00"+id)
	redis.Must("LPUSH", "q/shop/mail", "\x03\x00\x1b\x002"+id)
	redis.Must("SET", "j/shop/mail/2"+id, "?")
	redis.Must("HSET", "tk/default/shop", token, "the shop")
	r := newRig(t)
	journal := filepath.Join(t.TempDir(), "journal")
	args := []string{"import", "lmstfy", "--from", redis.URL(), "--journal", journal}
	if out := r.ok(append(args, "--dry-run")...); !strings.HasPrefix(out,
		"would import 1 job and 1 token from 1 namespace, 1 queue\n") {
		t.Errorf("a dry run: %s", out)
	}
	out := r.ok(args...)
	if !strings.HasPrefix(out, "imported 1 job and 1 token from 1 namespace, 1 queue\n") ||
		!strings.Contains(out, "Not imported:\n  1: has an unknown form\n") || strings.Contains(out, "s3cret") {
		t.Errorf("%s", out)
	}
	j, err := r.engine.Get(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}, id)
	if err != nil || string(j.Body) != "hello" || j.Tries != 3 {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := r.engine.FindToken(t.Context(), lmstfy.GivenHash("shop", token)); err != nil {
		t.Errorf("the token: %v", err)
	}
	if out := r.ok(append(args, "--json")...); !strings.Contains(out, `"known_tokens":1`) ||
		!strings.Contains(out, `"known":1`) || !strings.Contains(out, `"ready":0`) {
		t.Errorf("a second run: %s", out)
	}
	if text, mode := read(t, journal); strings.Contains(text, "s3cret") || mode != 0o600 ||
		!strings.Contains(text, "shop/mail/"+id+"\n") {
		t.Errorf("the journal (%v): %s", mode, text)
	}

	for _, bad := range [][]string{
		{"import", "lmstfy"}, {"import"}, {"import", "lmstfy", "--from", "redis://:s3cret@127.0.0.1:1"},
		{"import", "lmstfy", "--from", redis.URL(), "--pool", "orders", "--journal", "none"},
	} {
		if code, _, errs := r.run(bad...); code == exitOK || strings.Contains(errs, "s3cret") {
			t.Errorf("%v: exit %d, %s", bad, code, errs)
		}
	}
}

// An import that finds nothing probably reads the wrong database. It fails and names what
// it searched.
func TestImportLmstfyFailsIfEmpty(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, redistest.Password("s3cret"))
	r := newRig(t)

	for want, more := range map[string][]string{
		"no namespace (key m/ns) and no waiting job (timer_set), and no token of its pool default (tk/default/…); " +
			"check the number of the database in --from, lmstfy's name for the pool (--pool-name)": nil,
		"no token of its pool orders (tk/orders/…)":                                {"--pool-name", "orders"},
		"no waiting job (timer_set); check the number of the database in --from\n": {"--no-tokens"},
		"none of the namespaces shpo (key m/ns); " +
			"check the number of the database in --from, the names in --namespaces": {"--namespaces", "shpo", "--no-tokens"},
	} {
		code, out, errs := r.run(append([]string{"import", "lmstfy", "--from", redis.URL(), "--journal", "none"}, more...)...)
		if code != exitFailed || out != "" || strings.Contains(errs, "s3cret") ||
			!strings.HasPrefix(errs, "duly: not_found: redis://***@") || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %q, %q; want %q", more, code, out, errs, want)
		}
	}

	code, out, errs := r.run("import", "lmstfy", "--from", redis.URL(), "--journal", "none", "--json")
	if code != exitFailed || !strings.Contains(out, `"namespaces":0`) || !strings.Contains(errs, `"code":"not_found"`) {
		t.Errorf("for a machine: exit %d, %q, %q", code, out, errs)
	}
	wrong := "redis://:wr0ng@" + redis.Addr()
	if code, _, errs := r.run("import", "lmstfy", "--from", wrong); code != exitFailed ||
		strings.Contains(errs, "wr0ng") || !strings.HasSuffix(errs, "; check user and password in --from\n") {
		t.Errorf("a wrong password: exit %d, %q", code, errs)
	}
}
