package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/open"
)

// fakePush is a server that stores targets.
type fakePush struct {
	unclosable
	targets map[string]contract.PushTargetSettings
	calls   []string // recorded calls of the other methods
	rotated contract.PushRotation
}

func (f *fakePush) Targets(_ context.Context, p duly.PageParams) (all []contract.PushTarget, next string, err error) {
	if p.Cursor == "" { // answers in two pages
		return []contract.PushTarget{{Name: "closed", Settings: contract.PushTargetSettings{URL: "https://b.example/"},
			Host: &contract.PushHost{Limit: 1, HeldBack: 7}}}, "closed", nil
	}
	return []contract.PushTarget{{Name: "off", Settings: contract.PushTargetSettings{URL: "https://a.example/", Disabled: true},
		OwnSecret: true}}, "", nil
}

func (f *fakePush) Target(_ context.Context, name string) (contract.PushTarget, error) {
	s, ok := f.targets[name]
	if !ok {
		return contract.PushTarget{}, contract.NoTargetNamed("default", name)
	}
	t := contract.PushTarget{Name: name, Settings: s, Version: 1}
	for name := range s.Headers {
		t.HeaderNames = append(t.HeaderNames, name)
	}
	t.Settings.Headers = nil
	return t, nil
}

func (f *fakePush) SetTarget(_ context.Context, name string, s contract.PushTargetSettings) error {
	f.targets[name] = s
	return nil
}

func (f *fakePush) Hosts(context.Context) ([]contract.PushHost, error) { return nil, nil }

func (f *fakePush) DeleteTarget(ctx context.Context, name string) error {
	_, err := f.Target(ctx, name)
	delete(f.targets, name)
	return err
}

func (f *fakePush) EnableTarget(_ context.Context, name string, enabled bool) error {
	f.calls = append(f.calls, fmt.Sprint(name, " ", enabled))
	return nil
}

func (f *fakePush) RotateSecret(_ context.Context, name string, r contract.PushRotation) error {
	f.calls, f.rotated = append(f.calls, "rotate "+name), r
	return nil
}

func (f *fakePush) Secret(_ context.Context, name string) (contract.PushSecret, error) {
	return contract.PushSecret{Secret: "whsec_of" + name, PrivateKey: "whsk_x", PublicKey: "whpk_y"}, nil
}

func (f *fakePush) TestTarget(context.Context, string) (contract.PushTest, error) {
	return contract.PushTest{Status: 503, As: duly.Nack, Error: "503 of b.example", Took: 31 * time.Millisecond}, nil
}

// newPush returns a fakePush and a function that runs commands with it.
func newPush(t *testing.T) (*fakePush, func(stdin string, args ...string) (code int, stdout, stderr string)) {
	r := newRig(t)
	f := &fakePush{unclosable: unclosable{r.engine}, targets: map[string]contract.PushTargetSettings{}}
	return f, func(stdin string, args ...string) (int, string, string) {
		var out, errs logtest.Log
		r.stdin = stdin
		env := r.env(&out, &errs, append([]string{"target"}, args...)...)
		env.Open = func(context.Context, string, ...open.Option) (contract.Engine, error) { return f, nil }
		code := Run(t.Context(), env)
		return code, out.String(), errs.String()
	}
}

// C16.139: target set sends the settings of the flags. A secret comes from a file or from
// standard input.
func TestTargetSet(t *testing.T) {
	t.Parallel()
	f, run := newPush(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run("whsec_CANARY\n", "set", "crm", "https://crm.example/hook", "--method", "PUT", "--header",
		"authorization=Bearer CANARY", "--timeout", "30s",
		"--success", "409,410", "--permanent", "404", "--concurrency", "20", "--rate", "50", "--burst", "9", "--sign",
		"v1,v1a", "--ca", ca, "--disabled", "--secret-file", "-")
	if code != exitOK {
		t.Fatal(errs)
	}
	want := contract.PushTargetSettings{
		URL: "https://crm.example/hook", Method: "PUT", Headers: map[string]string{"authorization": "Bearer CANARY"},
		Timeout: 30 * time.Second, Success: []int{409, 410},
		Permanent: []int{404}, Concurrency: 20, Rate: duly.Rate{PerSecond: 50, Burst: 9}, Sign: []string{"v1", "v1a"},
		CA: "PEM", Disabled: true, Secret: "whsec_CANARY",
	}
	if got := f.targets["crm"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the target is %+v, want %+v", got, want)
	}

	for _, part := range []string{"https://crm.example/hook", "authorization", "409, 410", "v1, v1a", "50 a second"} {
		if !strings.Contains(out, part) {
			t.Errorf("the target is shown without %q:\n%s", part, out)
		}
	}

	if strings.Contains(out+errs, "CANARY") {
		t.Errorf("a secret is shown:\n%s%s", out, errs)
	}

	for _, bad := range [][]string{
		{"set", "crm"},
		{"set", "crm", "https://x", "--secret-file", filepath.Join(t.TempDir(), "none")},
		{"set", "crm", "https://x", "--timeout", "soon"},
	} {
		if code, _, _ := run("", bad...); code == exitOK {
			t.Errorf("%v is accepted", bad)
		}
	}

	if code, _, errs := run("\n", "set", "crm", "https://x", "--secret-file", "-"); code == exitOK ||
		!strings.Contains(errs, "no secret") {
		t.Errorf("an empty secret: %d %s", code, errs)
	}
}

// C16.137: target list lists every page.
func TestTargetList(t *testing.T) {
	t.Parallel()
	_, run := newPush(t)
	code, out, errs := run("", "list")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || len(lines) != 3 {
		t.Fatalf("%d: %s%s", code, out, errs)
	}

	for i, parts := range [][]string{
		{"closed", "https://b.example/", "1", "7", "the namespace's"},
		{"off", "disabled", "its own"},
	} {
		for _, part := range parts {
			if !strings.Contains(lines[i+1], part) {
				t.Errorf("line %q has no %q", lines[i+1], part)
			}
		}
	}

	if _, out, _ := run("", "list", "--json"); strings.Count(out, `"enabled":`) != 2 {
		t.Errorf("as JSON: %s", out)
	}
}

// C15.56, C16.139, C16.140, C16.141, C16.143: a command with a name acts on a target,
// without one on the namespace.
func TestTargetOperations(t *testing.T) {
	t.Parallel()
	f, run := newPush(t)
	must := func(args ...string) string {
		t.Helper()
		code, out, errs := run("", args...)
		if code != exitOK {
			t.Fatalf("%v: %s", args, errs)
		}
		return out
	}
	if out := must("secret", "crm"); out != "whsec_ofcrm\n" {
		t.Errorf("the secret is %q", out)
	}
	if out := must("secret", "--all"); out != "whsec_of\nwhsk_x\nwhpk_y\n" {
		t.Errorf("all keys are %q", out)
	}
	if out := must("test", "crm"); !strings.Contains(out, "503") || !strings.Contains(out, "nack") ||
		!strings.Contains(out, "b.example") {
		t.Errorf("the test is shown as %q", out)
	}
	must("enable", "a", "b")
	must("disable", "a")
	must("rotate", "crm", "--overlap", "7d")
	if f.rotated.Overlap == nil || *f.rotated.Overlap != 7*24*time.Hour {
		t.Errorf("the overlap is %v", f.rotated.Overlap)
	}
	must("rotate", "--overlap", "now")
	if f.rotated.Overlap == nil || *f.rotated.Overlap != 0 {
		t.Errorf("the overlap is %v", f.rotated.Overlap)
	}
	must("rotate")
	if f.rotated.Overlap != nil {
		t.Errorf("the overlap is %v", f.rotated.Overlap)
	}
	if got, want := fmt.Sprint(f.calls), "[a true b true a false rotate crm rotate  rotate ]"; got != want {
		t.Errorf("the calls are %s, want %s", got, want)
	}
	if code, _, errs := run("", "rotate", "--overlap", "soon"); code == exitOK || !strings.Contains(errs, "overlap") {
		t.Errorf("a bad overlap: %s", errs)
	}
	must("set", "crm", "https://crm.example/")
	must("delete", "crm")
	if code, _, errs := run("", "delete", "crm"); code == exitOK || !strings.Contains(errs, "target list") {
		t.Errorf("a second delete: %s", errs)
	}
}

// An engine without a server has no keys to seal secrets, so it has no targets.
func TestTargetsNeedServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if code, _, errs := r.run("target", "list"); code == exitOK || !strings.Contains(errs, "--url") {
		t.Errorf("%d: %s", code, errs)
	}
}
