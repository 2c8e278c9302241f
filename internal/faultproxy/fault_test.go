package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

// rig is a proxy in front of the shared server, with a client.
type rig struct {
	*testing.T
	server *redistest.Server
	prefix string
	proxy  *Proxy
	*resp.Conn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s, prefix := redistest.Shared(t)
	r := &rig{T: t, server: s, prefix: prefix, proxy: Redis(t, s.Addr())}
	r.Conn = r.connect()
	return r
}

func (r *rig) connect() *resp.Conn {
	r.Helper()
	nc, err := net.Dial("tcp", r.proxy.Addr())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { nc.Close() })
	return resp.NewConn(nc)
}

// send sends commands in one write. A word that contains a colon is a key, and gets the prefix of
// the test.
func (r *rig) send(commands ...string) {
	r.Helper()
	var all []byte
	for _, c := range commands {
		var args []any
		for _, word := range strings.Fields(c) {
			args = append(args, strings.ReplaceAll(word, ":", r.prefix+":"))
		}
		all = resp.AppendCommand(all, args...)
	}
	if _, err := r.Write(all); err != nil {
		r.Error(err)
	}
}

func (r *rig) receive(want ...any) {
	r.Helper()
	for _, w := range want {
		got, err := r.Receive()
		if e, ok := err.(resp.Error); ok {
			got = e
		}
		if fmt.Sprint(got) != fmt.Sprint(w) {
			r.Errorf("received %v, %v, want %v", got, err, w)
		}
	}
}

func (r *rig) ends() {
	r.Helper()
	if got, err := r.Receive(); err != io.EOF {
		r.Errorf("received %v, %v, want the end", got, err)
	}
}

// has checks the value of a counter on the server.
func (r *rig) has(key string, want any) {
	r.Helper()
	if got := r.server.Must("GET", r.prefix+":"+key); got != want {
		r.Errorf("%s is %v, want %v", key, got, want)
	}
}

func (r *rig) happens(f *Injected) {
	r.Helper()
	select {
	case <-f.Done():
	case <-time.After(30 * time.Second):
		r.Fatal("the fault did not happen")
	}
}

func TestLoseReplyExecutesTheRequestAndDropsTheReply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f := r.proxy.Inject(Fault{Match: Containing(":b"), Do: LoseReply})
	r.send("INCR :a", "GET :a", "INCR :b", "GET :b")
	r.receive(1, "1")
	r.ends()
	r.happens(f)
	r.has("b", "1")
	r.Conn = r.connect() // the fault was for one request only
	r.send("INCR :b")
	r.receive(2)
}

func TestSilentKeepsTheConnection(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   Action
		b, c any
	}{{"LoseReply", LoseReply, "1", "1"}, {"Drop", Drop, nil, nil}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			f := r.proxy.Inject(Fault{Match: Containing(":b"), Do: tt.do, Silent: true})
			r.send("INCR :a", "INCR :b", "INCR :c")
			r.receive(1)
			r.happens(f)
			r.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
			if got, err := r.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("received %v, %v", got, err)
			}
			redistest.Await(t, "the next command was executed", func() bool {
				return r.server.Must("GET",
					r.prefix+":c") == tt.c
			})
			r.has("b", tt.b)
		})
	}
}

func TestDropKeepsTheRequestFromTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f := r.proxy.Inject(Fault{Match: Containing(":b"), Do: Drop})
	r.send("INCR :a", "INCR :b", "INCR :c")
	r.receive(1)
	r.ends()
	r.happens(f)
	r.has("a", "1")
	r.has("b", nil)
	r.has("c", nil)
}

func TestTwiceSendsTheRequestTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   Action
		want int
	}{{"First", Twice, 1}, {"Last", TwiceLast, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			f := r.proxy.Inject(Fault{Match: Named("incr"), Do: tt.do})
			r.send("SET :b x", "INCR :a", "GET :b", "INCR :a")
			r.receive("OK", tt.want, "x", 3)
			r.happens(f)
		})
	}
}

func TestAnswerIsSentInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	moved := resp.Error("MOVED 1 127.0.0.1:1")
	r.proxy.Inject(Fault{Match: Containing(":b"), Do: Answer, Reply: moved})
	r.proxy.Inject(Fault{Match: Containing(":c"), Do: Answer, Reply: resp.Map{"k", true}, Times: 2})
	r.send("INCR :a", "GET :b", "GET :b", "GET :c", "INCR :a")
	r.receive(1, moved, nil, "[k 1]", 2)
	r.send("HELLO 3")
	if _, err := r.Receive(); err != nil {
		t.Error(err)
	}
	r.send("GET :c", "GET :c")
	r.receive(resp.Map{"k", true}, nil)
}

func TestMatchSelectsRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	script := "return 'x'"
	sha := r.server.Must("SCRIPT", "LOAD", script).(string)
	for _, tt := range []struct {
		match Match
		args  []string
		want  bool
	}{
		{Any, []string{"PING"}, true},
		{Named("GET"), []string{"get", "k"}, true},
		{Named("GET"), []string{"MGET", "GET"}, false},
		{Named("cluster slots"), []string{"CLUSTER", "SLOTS"}, true},
		{Named("cluster slots"), []string{"CLUSTER"}, false},
		{Script(sha), []string{"EVALSHA", strings.ToUpper(sha), "0"}, true},
		{Script(sha), []string{"eval_ro", script, "0"}, true},
		{Script(sha), []string{"EVAL", script + " ", "0"}, false},
		{Script(sha), []string{"GET", sha}, false},
		{Script(sha), []string{"EVALSHA"}, false},
		{Function("f"), []string{"FCALL", "f", "0"}, true},
		{Function("f"), []string{"fcall_ro", "f", "0"}, true},
		{Function("f"), []string{"FCALL", "F", "0"}, false},
		{Function("f"), []string{"EVALSHA", "f", "0"}, false},
		{Function("f"), []string{"FCALL"}, false},
		{Containing("b"), []string{"GET", "abc"}, true},
		{Containing("b"), []string{"GET", "a"}, false},
		{Named("GET").And(Containing("b")), []string{"GET", "b"}, true},
		{Named("GET").And(Containing("b")), []string{"SET", "b"}, false},
		{Named("GET").Or(Containing("b")), []string{"SET", "b"}, true},
		{Named("GET").Or(Containing("b")), []string{"SET", "a"}, false},
	} {
		if got := tt.match(tt.args); got != tt.want {
			t.Errorf("%q: %t", tt.args, got)
		}
	}

	all := r.proxy.Inject(Fault{Match: Named("INCR"), Do: Answer, Reply: 100, Skip: 1, Times: -1})
	r.send("INCR :a", "INCR :a", "INCR :a", "GET :a")
	r.receive(1, 100, 100, "1")
	if all.Count() != 2 {
		t.Errorf("counted %d", all.Count())
	}
	all.Remove()
	r.send("INCR :a")
	r.receive(2)

	var seen []string
	r.proxy.Inject(Fault{Match: Named("GET"), Before: func(args []string) {
		seen = args
		r.server.Must("SET", r.prefix+":a", "between")
	}})
	r.send("GET :a")
	r.receive("between")
	if strings.Join(seen, " ") != "GET "+r.prefix+":a" {
		t.Errorf("before %q", seen)
	}
}

// In protocol 3 pushes of subscriptions come between the replies. A fault must nevertheless affect
// the right reply.
func TestPushesAreNotCountedAsReplies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.send("HELLO 3")
	if _, err := r.Receive(); err != nil {
		t.Error(err)
	}

	f := r.proxy.Inject(Fault{Match: Named("INCR"), Do: LoseReply})
	// Faults never apply to commands that subscribe.
	every := r.proxy.Inject(Fault{Match: Named("SUBSCRIBE"), Do: Drop})
	defer every.Remove()
	r.send("SUBSCRIBE :ch", "PUBLISH :ch hello", "GET :none", "INCR :a")

	received := map[string]bool{}
	for range 4 { // the four values arrive in any order
		v, err := r.Receive()
		if err != nil {
			t.Fatal(err)
		}
		received[fmt.Sprint(v)] = true
	}

	ch := r.prefix + ":ch"
	for _, want := range []string{"[subscribe " + ch + " 1]", "[message " + ch + " hello]", "1", "<nil>"} {
		if !received[want] {
			t.Errorf("not received: %s of %v", want, received)
		}
	}

	r.ends()
	r.happens(f)
	r.has("a", "1")
}

// After a SUBSCRIBE, replies no longer follow the order of the requests, so the proxy forwards all.
func TestFaultsDoNotApplyAfterSubscribe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Inject(Fault{Match: Named("PING"), Do: Drop})
	ch := r.prefix + ":ch"
	r.send("SUBSCRIBE :ch :more")
	r.receive([]any{"subscribe", ch, 1}, []any{"subscribe", r.prefix + ":more", 2})
	r.server.Must("PUBLISH", ch, "hello")
	r.receive([]any{"message", ch, "hello"})
	r.send("PING")
	r.receive([]any{"pong", ""})
}

func TestTheClientLibraryGetsTheFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.proxy.Addr()}, ForceSingleClient: true,
		DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	incr := func(key string) (int64, error) {
		return c.Do(t.Context(), c.B().Incr().Key(r.prefix+":"+key).Build()).AsInt64()
	}

	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := incr("many"); err != nil {
				t.Error(err)
			}
		})
	}

	wg.Wait()
	r.has("many", "50")
	f := r.proxy.Inject(Fault{Match: Containing(":lost"), Do: LoseReply})
	if n, err := incr("lost"); err == nil {
		t.Errorf("a lost reply is %d", n)
	}

	r.happens(f)
	redistest.Await(t, "it connects again", func() bool {
		n, err := incr("lost")
		return err == nil && n >= 2
	})
}

// complaints is a test that may fail. It records the messages.
type complaints struct {
	testing.TB
	mu   sync.Mutex
	text string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += fmt.Sprintf(format, args...)
}

func TestBytesThatAreNotARequestFailTheTest(t *testing.T) {
	t.Parallel()
	c := &complaints{TB: t}
	t.Cleanup(func() { // runs after the proxy's own cleanup
		if !strings.Contains(c.text, "resp:") {
			t.Errorf("reported %q", c.text)
		}
	})
	p := Redis(c, newEcho(t).Addr().String())
	talker := call(t, p)
	talker.send("GET / HTTP/1.1\r")
	talker.SetReadDeadline(time.Now().Add(30 * time.Second))
	if got, err := talker.in.ReadString('\n'); err == nil {
		t.Errorf("received %q", got)
	}
}
