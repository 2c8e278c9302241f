package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/internal/redistest"
)

// poolRig returns a rig with a server with pools, and the engine of the pool orders.
func poolRig(t *testing.T) (r *rig, orders *model.Engine) {
	r = newRig(t)
	r.engine, orders = model.New(model.Config{}), model.New(model.Config{})
	t.Cleanup(func() { r.engine.Close(); orders.Close() })
	r.more = map[string]*model.Engine{"model:orders": orders}
	data := filepath.Join(t.TempDir(), "data")
	_, errs, stop := r.serve(1, "--data", data, "--json", "--pool", "orders=model:orders", "--pool", "down=model:down")
	t.Cleanup(func() {
		if code := stop(); code != exitOK {
			t.Errorf("serve: exit %d, %s", code, errs.String())
		}
	})
	r.vars = map[string]string{"DULY_DATA": data}
	return r, orders
}

// A server with pools lists them, places a namespace with a token, and moves a namespace. A
// pool that cannot be reached does not affect the others.
func TestPoolCommands(t *testing.T) {
	t.Parallel()
	r, orders := poolRig(t)
	if out := r.okRemote("pool", "list"); out != "POOL     READY\ndefault  yes\ndown     no\norders   yes\n" {
		t.Errorf("%s", out)
	}
	want := `{"pools":[{"name":"default","ready":true},{"name":"down","ready":false},` +
		`{"name":"orders","ready":true}]}` + "\n"
	if out := r.okRemote("pool", "list", "--json"); out != want {
		t.Errorf("%s", out)
	}
	r.okRemote("token", "create", "-n", "shop", "--pool", "orders", "--rights", "produce")
	r.okRemote("push", "q", "x", "--id", "one", "-n", "shop")
	if _, err := orders.Get(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"}, "one"); err != nil {
		t.Errorf("the job is not in its pool: %v", err)
	}
	r.okRemote("token", "create", "-n", "lost", "--pool", "down", "--rights", "produce")
	if out := r.okRemote("pool", "move", "shop", "--to", "default", "--detach"); !strings.Contains(out,
		"shop       default  orders  prepare") {
		t.Errorf("%s", out)
	}
	if out := r.okRemote("pool", "status"); !strings.Contains(out, "1  1 ready\n") {
		t.Errorf("%s", out)
	}
	var m struct {
		Pool, From string
		Left       struct{ Ready int }
	}
	if out := r.okRemote("pool", "status", "shop", "--json"); json.Unmarshal([]byte(out), &m) != nil ||
		m.Pool != "default" ||
		m.From != "orders" || m.Left.Ready != 1 {
		t.Errorf("%s", out)
	}

	for _, tt := range []struct {
		want string
		args []string
	}{
		{"duly: unavailable: ", []string{"push", "q", "x", "-n", "lost"}},
		{"duly: conflict: ", []string{"token", "create", "-n", "lost", "--pool", "default", "--rights", "produce"}},
		{"duly: invalid: ", []string{"token", "create", "-n", "lost", "--pool", "nowhere", "--rights", "produce"}},
		{"duly: conflict: ", []string{"pool", "move", "shop", "--to", "down"}},
		{"duly: invalid: ", []string{"pool", "move", "shop", "--to", "nowhere"}},
		{`duly: not_found: namespace "shpo" has no queue and no token`, []string{"pool", "move", "shpo", "--to", "orders"}},
		{"duly: invalid: the pool is missing; give --to POOL", []string{"pool", "move", "shop"}},
		{"duly: unsupported: ", []string{"backup", "--pool", "orders", filepath.Join(t.TempDir(), "b.db")}},
	} {
		if code, _, errs := r.runRemote(tt.args...); code == exitOK || !strings.HasPrefix(errs, tt.want) {
			t.Errorf("%v: exit %d, %s", tt.args, code, errs)
		}
	}

	if code, _, errs := r.run("pool", "list", "--url", "model:"); code != exitFailed ||
		!strings.Contains(errs, "only a server has pools") {
		t.Errorf("without a server: exit %d, %s", code, errs)
	}
}

func TestServeRejectsPools(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"orders", "=model:orders", "a/b=model:orders", "default=model:orders", "orders="} {
		r := newRig(t)
		r.more = map[string]*model.Engine{"model:orders": r.engine}
		code, _, errs := r.run("serve", "--engine", "model:", "--data", t.TempDir(), "--addr", "127.0.0.1:0", "--admin-addr",
			"127.0.0.1:0", "--pool", bad)
		if code == exitOK || !strings.Contains(errs, "pool") {
			t.Errorf("%s: exit %d, %s", bad, code, errs)
		}
	}
}

// ending is the admin side of a server whose move ends at once.
type ending struct{ Admin }

func (ending) Move(_ context.Context, namespace, to string) (contract.MoveState, error) {
	return contract.MoveState{Placement: contract.Placement{Namespace: namespace, Pool: to, From: "default",
		Phase: contract.Preparing}}, nil
}

func (ending) Moves(_ context.Context, namespace string) ([]contract.MoveState, error) {
	return []contract.MoveState{{Placement: contract.Placement{Namespace: namespace, Pool: "orders"}}}, nil
}

func TestPoolMoveWaitsForEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var out, errs strings.Builder
	env := r.env(&out, &errs, "pool", "move", "shop", "--to", "orders", "--url", "http://t@127.0.0.1:1", "--admin-url",
		"http://t@127.0.0.1:1")
	env.OpenAdmin = func(context.Context, string, string, *tls.Config) (Admin, error) { return ending{}, nil }
	if code := Run(t.Context(), env); code != exitOK || !strings.Contains(out.String(), "shop       orders") {
		t.Errorf("exit %d, %s%s", code, out.String(), errs.String())
	}
}

// fakeMove is the admin side of a server. Each call to Moves returns the next state.
type fakeMove struct {
	Admin
	states []contract.MoveState
}

func (s *fakeMove) Move(ctx context.Context, namespace, _ string) (contract.MoveState, error) {
	moves, err := s.Moves(ctx, namespace)
	return moves[0], err
}

func (s *fakeMove) Moves(context.Context, string) ([]contract.MoveState, error) {
	next := s.states[:1]
	s.states = s.states[1:]
	return next, nil
}

// Without a terminal, pool move prints a line for each phase.
func TestPoolMovePrintsPhases(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		r := newRig(t)
		at := func(phase contract.MovePhase, from string, left duly.Sizes) contract.MoveState {
			return contract.MoveState{Placement: contract.Placement{Namespace: "shop", Pool: "orders", From: from, Phase: phase},
				Left: left}
		}
		admin := &fakeMove{states: []contract.MoveState{
			at(contract.Preparing, "default", duly.Sizes{}), at(contract.Preparing, "default", duly.Sizes{}),
			at(contract.Draining, "default", duly.Sizes{Ready: 12, Dead: 1}),
			at(contract.Draining, "default", duly.Sizes{Ready: 3}), at(contract.Placed, "", duly.Sizes{}),
		}}
		var out, errs strings.Builder
		env := r.env(&out, &errs, "pool", "move", "shop", "--to", "orders", "--url", "http://t@127.0.0.1:1", "--admin-url",
			"http://t@127.0.0.1:1", fmt.Sprintf("--json=%t", asJSON))
		env.OpenAdmin = func(context.Context, string, string, *tls.Config) (Admin, error) { return admin, nil }
		ended := make(chan int)
		go func() { ended <- Run(t.Context(), env) }()
		code := r.advanceUntil(ended, moveInterval)
		want := "shop moves from default to orders: its queues are created there\n" +
			"shop moves from default to orders: new jobs go there, and workers empty default: 12 ready, 1 dead\n"
		if asJSON {
			want = ""
		}
		if code != exitOK || errs.String() != want {
			t.Errorf("exit %d, %q, want %q", code, errs.String(), want)
		}
	}
}

// advanceUntil advances the clock by a step whenever a command waits, until it ends.
func (r *rig) advanceUntil(ended <-chan int, step time.Duration) (code int) {
	for {
		select {
		case code := <-ended:
			return code
		case <-time.NewTimer(time.Millisecond).C:
			if r.clock.Timers() > 0 {
				r.clock.Advance(step)
			}
		}
	}
}

// interrupted is the admin side of a server that answers after the command was
// interrupted.
type interrupted struct {
	ending
	signals chan<- os.Signal
}

func (s interrupted) Moves(ctx context.Context, _ string) ([]contract.MoveState, error) {
	s.signals <- syscall.SIGINT
	<-ctx.Done()
	return nil, contract.Unanswered(ctx.Err())
}

// An interrupted pool move prints that the move continues, and no hint about the server.
func TestPoolMoveInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var out, errs strings.Builder
	signals := make(chan os.Signal, 2)
	env := r.env(&out, &errs, "pool", "move", "shop", "--to", "orders", "--url", "http://SECRET@127.0.0.1:1",
		"--admin-url", "http://SECRET@127.0.0.1:1")
	env.OpenAdmin = func(context.Context, string, string, *tls.Config) (Admin, error) {
		return interrupted{signals: signals}, nil
	}
	env.Signals = signals
	env.Terminal = func(any) bool { return true }
	code := Run(t.Context(), env)
	text := errs.String()
	if code != exitFailed || !strings.HasSuffix(text, "duly: interrupted\n") ||
		!strings.Contains(text, "the move continues without this command") {
		t.Errorf("exit %d, %q", code, text)
	}
}

// C15.29: an import into a server stores the jobs of each namespace in its pool, and tokens
// by their hashes.
func TestImportLmstfyIntoServer(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	const id, token = "01HF7YAT00041061050R000000", "01HF7YAT00041061050R000009"

	for _, namespace := range []string{"shop", "other"} {
		redis.Must("HSET", "m/ns", namespace, "1")
		redis.Must("HSET", "m/ns/"+namespace, "mail", "1")
		redis.Must("SET", "j/"+namespace+"/mail/"+id, namespace)
		redis.Must("LPUSH", "q/"+namespace+"/mail", "\x03\x00\x1a\x00"+id)
	}

	redis.Must("HSET", "tk/default/shop", token, "the shop")
	redis.Must("HSET", "__throttler_keys__", "default/shop/"+token, `{"read":5,"write":0,"interval":60}`)
	r, orders := poolRig(t)
	args := []string{"import", "lmstfy", "--from", redis.URL(), "--journal", filepath.Join(t.TempDir(), "j"), "--pool",
		"orders"}
	if out := r.okRemote(args...); !strings.HasPrefix(out, "imported 2 jobs and 1 token from 2 namespaces, 2 queues\n") {
		t.Errorf("%s", out)
	}

	for namespace, engine := range map[string]*model.Engine{"shop": orders, "other": orders} {
		if j, err := engine.Get(t.Context(), duly.QueueRef{Namespace: namespace, Name: "mail"}, id); err != nil ||
			string(j.Body) != namespace {
			t.Errorf("%s: %+v, %v", namespace, j, err)
		}
	}

	if out := r.okRemote("token", "list", "-n", "shop"); !strings.Contains(out, "5 consume in 1m") {
		t.Errorf("%s", out)
	}
}
