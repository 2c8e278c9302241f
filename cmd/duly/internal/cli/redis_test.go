package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// C11.2, C11.3, C11.5, C15.2: an error of Redis is one line that says what is wrong and
// what to do, without a secret, in every command. A malformed URL is a usage error.
func TestRedisErrorsAreOneLineWithAHint(t *testing.T) {
	t.Parallel()
	plain, prefix := redistest.Shared(t)
	locked := redistest.Single(t, redistest.Password("s3cret"),
		redistest.User("less", "s3cret", "~duly:*", "&duly:*", "+@all", "-hset"),
		redistest.User("elsewhere", "s3cret", "~other:*", "&other:*", "+@all"))
	tls := redistest.Single(t, redistest.TLS())
	_, port, _ := strings.Cut(plain.Addr(), ":")
	replica := redistest.Single(t, redistest.Config("replicaof 127.0.0.1 %s", port))
	gone := redistest.Single(t)
	gone.Stop()
	old := redistest.NewStub(t, "6.2.14", func([]string) any { return redistest.Usual{} })
	plain.Must("SET", prefix+":{default}:configs", "what is this")
	plain.Must("SET", prefix+":namespaces", "what is this")
	plain.Must("SET", prefix+":{tokens}:tokens", "what is this")
	const quick = "?retry=10ms&dial_timeout=500ms"

	for _, tt := range []struct {
		url  string
		code int
		says []string
	}{
		{"redis://", exitUsage, []string{"duly: invalid: FLAG ", "has an empty or invalid host"}},
		{"redis://:s3cret@host/zero", exitUsage, []string{"option db of FLAG is", "must be a whole number"}},
		{"redis://host#s3cret", exitUsage, []string{"FLAG contains a #", "%23"}},
		{plain.URL() + "?colour=blue", exitUsage,
			[]string{`FLAG has the unknown option "colour"; known options are addr, db, prefix`, "max_body"}},
		{plain.URL() + "?max_body=many", exitUsage,
			[]string{`option max_body of FLAG is "many", must be a number of bytes between 1 and 67108864`}},
		{plain.URL() + "?max_body=0", exitUsage,
			[]string{`option max_body of FLAG is "0", must be a number of bytes between 1 and 67108864`}},
		{plain.URL() + "?max_body=67108865", exitUsage,
			[]string{"option max_body of FLAG is 67108865, must be a number of bytes between 1 and 67108864"}},
		{plain.URL() + "?max_queues=0", exitUsage,
			[]string{`option max_queues of FLAG is "0", must be a number between 1 and 2147483647`}},
		{plain.URL() + "?shards=0", exitUsage,
			[]string{`option shards of FLAG is "0", must be a power of two between 1 and 256`}},
		{"sqlite:x.db?max_body=0", exitUsage,
			[]string{`option max_body of FLAG is "0", must be a number of bytes between 1 and 67108864`}},
		{"sqlite:", exitUsage, []string{"the path of FLAG is missing; give the database file"}},
		{plain.URL() + "?shards=3", exitUsage, []string{"option shards of FLAG is 3, must be a power of two"}},
		{plain.URL() + "?durability=tape", exitUsage,
			[]string{`option durability of FLAG is "tape", must be none, aof or replicas:N`}},
		{"redis+sentinel://host?master=m&tls_ca=x", exitUsage, []string{"option tls_ca of FLAG is only for rediss://"}},
		{"redis://:wr0ng@" + locked.Addr(), exitFailed,
			[]string{"duly: unauthorized: redis at " + locked.Addr(), "password", "check both in the URL"}},
		{"redis://" + locked.Addr(), exitFailed, []string{"duly: unauthorized: redis at ", "write it into the URL"}},
		{"redis+sentinel://" + plain.Addr() + "/m", exitUsage,
			[]string{"duly: invalid: redis at " + plain.Addr() + ": this is not a Sentinel; ", "begin the URL with redis://"}},
		{gone.URL() + quick, exitFailed, []string{"duly: unavailable: redis at ", "check that the server runs"}},
		{"rediss://" + plain.Addr() + quick, exitFailed,
			[]string{"duly: unavailable: ", "write redis:// instead of rediss://"}},
		{"redis://" + tls.Addr() + quick, exitFailed, []string{"duly: unavailable: ", "write rediss:// if it speaks TLS"}},
		{old.URL(), exitFailed, []string{"duly: unsupported: ", "6.2.14", "needs Redis 7.0"}},
		{replica.URL() + "?retry=10ms", exitFailed, []string{"duly: unavailable: ", "the server is a replica",
			"connect to the primary"}},
		{locked.UserURL("less"), exitFailed, []string{"duly: forbidden: ", "lacks rights (hset", "ACL SETUSER"}},
		{locked.UserURL("elsewhere"), exitFailed, []string{"duly: forbidden: ", "keys under the prefix duly", "ACL SETUSER"}},
		{plain.URL() + "?prefix=" + prefix, exitFailed,
			[]string{"duly: corrupt: ", `the key "` + prefix + ":", "remove that key and run duly check --repair"}},
	} {
		for name, args := range map[string][]string{
			"--url":  {"stats", "q", "--url", tt.url},
			"--url ": {"check", "--repair", "--url", tt.url},
			"--engine": {"serve", "--engine", tt.url, "--data", t.TempDir(), "--addr", "127.0.0.1:0", "--admin-addr",
				"127.0.0.1:0", "--log-level", "error"},
		} {
			r := newRig(t)
			code, out, errs := r.real(args...)
			if first, rest, _ := strings.Cut(errs, "\n"); strings.HasPrefix(first, "duly: warning: ") {
				errs = rest // lines without the warnings about settings
			}
			if code != tt.code || out != "" || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "s3cret") ||
				strings.Contains(errs, "wr0ng") {
				t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
			}
			for _, want := range tt.says {
				if want = strings.Replace(want, "FLAG", strings.TrimSpace(name), 1); !strings.Contains(errs, want) {
					t.Errorf("%v: no %q in %q", args, want, errs)
				}
			}
			for _, wrong := range []string{"duly serve", "--data", "token create", "TOKEN@", "backup", "--help", "; \n", "map"} {
				if strings.Contains(errs, wrong) {
					t.Errorf("%v: %q does not help here: %q", args, wrong, errs)
				}
			}
		}
	}
}

// real runs a command that opens real engines.
func (r *rig) real(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	env := r.env(&out, &errs, args...)
	env.Open = open.Engine
	code = Run(r.t.Context(), env)
	return code, out.String(), errs.String()
}

// C4.94: queues and top list all queues except the one that fails.
func TestQueuesListsAllButFailed(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	url := server.URL() + "?prefix=" + prefix
	r := newRig(t)

	for _, q := range []string{"a", "broken", "c"} {
		if code, _, errs := r.real("push", q, "x", "--url", url); code != exitOK {
			t.Fatal(errs)
		}
	}

	key := prefix + ":{default/broken/0}:ready"
	server.Must("SET", key, "what is this")
	code, out, errs := r.real("queues", "--url", url)
	if code != exitFailed || !strings.Contains(out, "\na ") || strings.Contains(out, "\nbroken ") ||
		!strings.Contains(out, "\nc ") {
		t.Errorf("%d: %s", code, out)
	}
	if !strings.HasPrefix(errs, "duly: corrupt: ") || !strings.Contains(errs, key) || strings.Count(errs, "\n") != 1 {
		t.Errorf("the error is %q", errs)
	}

	for _, args := range [][]string{{"top", "--once"}, {"top", "a", "broken", "c"}, {"top", "--json"}} {
		code, out, errs := r.realTop(append(args, "--url", url)...)
		if code != exitFailed || !strings.Contains(out, "a") || strings.Contains(out, "broken") ||
			!strings.Contains(out, "c") {
			t.Errorf("%v: %d: %s", args, code, out)
		}
		if !strings.Contains(errs, "corrupt") || !strings.Contains(errs, key) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: the error is %q", args, errs)
		}
	}
}

// realTop is like real for a command that waits on the clock once.
func (r *rig) realTop(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	before := r.clock.Timers()
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, stdout, stderr = r.real(args...)
	}()
	redistest.Await(r.t, "it waits", func() bool {
		select {
		case <-done:
			return true
		default:
			return r.clock.Timers() > before
		}
	})
	r.clock.Advance(2 * time.Second)
	<-done
	return code, stdout, stderr
}

// C9.11, C13.9, C15.35: the hint of a full error depends on what is full.
func TestFullErrorHintsOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	r := newRig(t)
	if code, _, errs := r.real("queue", "set", "small", "--max-jobs", "1", "--url", server.URL()); code != exitOK {
		t.Fatal(errs)
	}
	push := func(queue, url string, says, saysNot []string) {
		t.Helper()
		code, _, errs := r.real("push", queue, "x", "--url", url)
		if code != exitFailed || !strings.HasPrefix(errs, "duly: full: ") || strings.Count(errs, "\n") != 1 {
			t.Errorf("exit %d, %q", code, errs)
		}
		for _, want := range says {
			if !strings.Contains(errs, want) {
				t.Errorf("no %q in %q", want, errs)
			}
		}
		for _, wrong := range saysNot {
			if strings.Contains(errs, wrong) {
				t.Errorf("%q does not help here: %q", wrong, errs)
			}
		}
	}
	if code, _, errs := r.real("push", "small", "x", "--url", server.URL()); code != exitOK {
		t.Fatal(errs)
	}
	push("small", server.URL(), []string{"is full: max_jobs is 1", "duly queue set small --max-jobs",
		"duly queue purge small"}, []string{"disk", "memory"})
	if code, _, errs := r.real("push", "roomy", "x", "--url", server.URL()); code != exitOK {
		t.Fatal(errs)
	}
	push("other", server.URL()+"?max_queues=2", []string{"has 2 queues, the maximum", "duly queue destroy"},
		[]string{"disk", "memory", "purge", "queue set"})
	server.Must("CONFIG", "SET", "maxmemory", "1")
	push("roomy", server.URL(), []string{"redis at " + server.Addr(), "memory is full (maxmemory)", "raise it",
		"duly dead purge"}, []string{"disk", "queue set"})
}

// C9.9, C15.35: commands warn about settings of Redis that affect them, on standard error.
func TestCommandsWarnAboutRedisSettings(t *testing.T) {
	t.Parallel()
	evicting, good := redistest.Single(t, redistest.MaxMemory("100mb", "allkeys-lru")),
		redistest.Single(t, redistest.AOF("always"))
	bad := evicting.URL() + "?eviction=warn&durability=replicas:2&durability_timeout=10ms"
	at := "duly: warning: redis at " + evicting.Addr() + ": the server "
	eviction := at + "drops keys when its memory is full, which loses jobs; " +
		"set maxmemory-policy to noeviction (policy allkeys-lru)\n"
	replicas := at + "has fewer replicas than durability asks for, so no push will be confirmed; " +
		"add replicas (replicas 0, wanted 2)\n"
	appendonly := at + "keeps no append-only file, so a restart loses jobs; set appendonly yes\n"
	r := newRig(t)
	for _, url := range []string{good.URL(), evicting.URL() + "?eviction=warn"} {
		r.real("push", "q", "x", "--url", url)
	}

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"check"}, eviction + appendonly + replicas},
		{[]string{"queues"}, ""},
		{[]string{"dead", "list", "q"}, ""},
		{[]string{"push", "q", "--lines"}, eviction + replicas},
	} {
		_, out, errs := r.real(append(tt.args, "--url", bad)...)
		if rest, found := strings.CutPrefix(errs, tt.want); !found || strings.Contains(rest, "warning") ||
			strings.Contains(out, "server") || strings.Contains(errs, "level=") {
			t.Errorf("%v: %q, %q, want %q", tt.args, out, errs, tt.want)
		}
		if code, _, errs := r.real(append(tt.args, "--url", good.URL())...); code != exitOK || errs != "" {
			t.Errorf("%v on a good server: exit %d, %q", tt.args, code, errs)
		}
	}

	_, out, errs := r.real("check", "--json", "--url", bad)
	if lines := strings.Split(errs, "\n"); len(lines) != 4 || strings.Contains(out, "warning") ||
		!strings.HasPrefix(lines[1],
			`{"warning":{"setting":"appendonly","detail":"redis at `+evicting.Addr()+`: the server keeps no append-only file`) {
		t.Errorf("%q, %q", out, errs)
	}
	if _, _, errs := r.real("push", "q", "x", "--url", evicting.URL()+"?eviction=warn"); errs != eviction {
		t.Errorf("push: %q, want %q", errs, eviction)
	}

	// Some commands open an engine several times, but warn once.
	var log strings.Builder
	a := &app{warnings: warnAlways, log: deferredLog{to: &log}}

	for range 2 {
		e, err := open.Engine(t.Context(), evicting.URL()+"?eviction=warn", open.Log(a.engineLog(bad)))
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
	}

	if log.String() != eviction+appendonly {
		t.Errorf("opened twice: %q", log.String())
	}
}
