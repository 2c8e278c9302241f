package redisengine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
	"github.com/dulymq/duly/redisengine/lua"
)

// TestRepairAfterInterruptedScripts makes every command of every script fail once, in each form of
// the scripts (faults S3, C8). A failure before the script's first write has changed nothing. After
// a later failure, one repair fixes the shard, and no job or message is lost. The short form of the
// test repairs only some of the states.
func TestRepairAfterInterruptedScripts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and a script runs in the server's one thread")
	}
	for _, form := range scriptForms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			x := newInterrupter(t, form)
			x.overAll(t, x.interruptAll, "was not interrupted")
			t.Logf("failed commands: %v", x.raised)
		})
	}
}

// scriptForms are the values of the option scripts that fix the form of the engine's calls.
var scriptForms = []string{"functions", "eval"}

// trial is an operation whose store is prepared.
type trial struct {
	t      *testing.T
	do     func()
	mended func(t *testing.T) // repairs the store once after an interrupted script, and checks it
	// every is the number of interruptions in the short form for each interruption whose result is
	// repaired.
	every int
}

// overAll runs all operations, and reports every script none of whose commands has failed. Scripts
// of the registry belong to no shard, so they are exempt. The short form tests topics in only one
// form of the scripts.
func (x *interrupter) overAll(t *testing.T, over func(trial), complaint string) {
	run := func(name string, begin func(t *testing.T, x *interrupter) trial) {
		t.Run(name, func(t *testing.T) {
			x.must(t, "FLUSHALL")
			over(begin(t, x))
		})
	}
	for _, d := range slices.Concat(operations, scheduleOperations) {
		run(d.name, d.begin)
	}
	others := []string{"token_", "placement_", "target_", "push_queue"}
	if x.form == "functions" || long() {
		for _, o := range topicOperations {
			run("Topic"+o.name, o.begin)
		}
	} else {
		others = append(others, "topic_", "group_")
	}
	elsewhere := func(name string) bool {
		return slices.ContainsFunc(others, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	for _, name := range lua.Names() {
		if x.raised[name] == 0 && !elsewhere(name) {
			t.Errorf("the script %s %s", name, complaint)
		}
	}
}

// interrupter makes scripts fail at any of their commands. It has a private server.
type interrupter struct {
	server  *redistest.Server
	form    string // one of scriptForms
	conn    *resp.Conn
	usual   map[string]callWords // words that call a script in its normal form, by its name
	raising map[string]callWords // words that call a script in its failing form, by its name
	names   map[string]string    // names of scripts, by their hash or function
	raised  map[string]int       // number of commands of each script that have failed
	harmed  int                  // number of failures after which the store was changed
}

// callWords are the first words of the command that calls a script.
type callWords [2]any

// with returns the command that calls the script with these keys and arguments.
func (w callWords) with(args ...any) []any { return append(w[:], args...) }

// scriptCall is one call to a script: the name, the number of keys, the keys and the arguments.
type scriptCall struct {
	name string
	args []any
}

// raise replaces redis.call in a script to be interrupted. The command whose number is the last
// argument fails.
const raise = `local nth, fatal = 0, tonumber(table.remove(ARGV))
call = function(...)
nth = nth + 1
if nth == fatal then error('planned') end
return redis.call(...)
end
`

func newInterrupter(t *testing.T, form string) *interrupter {
	x := &interrupter{
		server: redistest.Single(t, redistest.Config("enable-debug-command yes")), form: form,
		usual: map[string]callWords{}, raising: map[string]callWords{}, names: map[string]string{}, raised: map[string]int{},
	}
	x.conn = x.dial(t)
	if form == "eval" {
		x.loadScripts(t)
	} else {
		x.loadFunctions(t)
	}
	return x
}

// dial returns a connection that ends with the test.
func (x *interrupter) dial(t *testing.T) *resp.Conn {
	t.Helper()
	c, err := x.server.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// loadScripts loads every script for EVALSHA, in its normal and its failing form.
func (x *interrupter) loadScripts(t *testing.T) {
	load := func(source string) callWords {
		return callWords{"EVALSHA", x.must(t, "SCRIPT", "LOAD", source)}
	}
	for _, name := range lua.Names() {
		source := lua.Load(name).Source
		x.usual[name] = load(source)
		x.raising[name] = load(strings.Replace(source, "local call = redis.call\n", "local call\n"+raise, 1))
		x.names[x.usual[name][1].(string)] = name
	}
}

// loadFunctions loads every library in its normal form and, under other names, in its failing
// form.
func (x *interrupter) loadFunctions(t *testing.T) {
	for _, library := range lua.Libraries() {
		x.must(t, "FUNCTION", "LOAD", library.Source)
		source := strings.ReplaceAll(library.Source, "call = redis.call\n", raise)
		x.must(t, "FUNCTION", "LOAD", strings.ReplaceAll(source, lua.NamePrefix, "raising_"))
	}
	for _, name := range lua.Names() {
		function := lua.Load(name).Function
		x.usual[name] = callWords{"FCALL", function}
		x.raising[name] = callWords{"FCALL", strings.Replace(function, lua.NamePrefix, "raising_", 1)}
		x.names[function] = name
	}
}

func (x *interrupter) must(t *testing.T, args ...any) any {
	t.Helper()
	v, err := x.conn.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(args[0], err)
	}
	return v
}

// interruptAll runs an operation, and then interrupts each of its script calls at every command.
func (x *interrupter) interruptAll(o trial) {
	before := x.snapshot(o.t)
	calls := x.listen(o.t, o.do)
	if len(calls) == 0 {
		o.t.Fatal("the operation called no script")
	}
	x.restore(o.t, before)
	for _, c := range calls {
		x.interrupt(o, c)
		x.must(o.t, x.usual[c.name].with(c.args...)...)
	}
}

// begin prepares the operation.
func (d operation) begin(t *testing.T, x *interrupter) trial {
	r := openDamagedOn(t, x.server, "s3", 1, clock.NewFake(), "scripts="+x.form)
	r.fill(1)
	if d.setup != nil {
		d.setup(r)
	}
	for name := range r.jobs {
		kind, _, _ := strings.Cut(name, "-")
		if slices.Contains(d.ends, kind) || slices.Contains(d.ends, "") {
			r.gone[name] = true
		}
	}
	return trial{t: t, do: func() { d.do(r) }, mended: r.mended, every: 3}
}

// interrupt makes each command of a script call fail, and repairs the result.
func (x *interrupter) interrupt(o trial, c scriptCall) {
	before, digest := x.snapshot(o.t), x.must(o.t, "DEBUG", "DIGEST")
	for nth := 1; ; nth++ {
		_, err := x.conn.Do(o.t.Context(), append(x.raising[c.name].with(c.args...), nth)...)
		if err == nil {
			x.restore(o.t, before)
			return
		}
		if !strings.Contains(err.Error(), "planned") {
			o.t.Fatalf("%s: %v", c.name, err)
		}
		x.raised[c.name]++
		if x.must(o.t, "DEBUG", "DIGEST") == digest {
			continue
		}
		if x.harmed++; x.harmed%o.every != 0 && !long() {
			x.restore(o.t, before)
			continue
		}
		o.t.Run(fmt.Sprintf("%s-%d", c.name, nth), o.mended)
		x.restore(o.t, before)
	}
}

// mended repairs the state after an interrupted script.
func (r *damageRig) mended(t *testing.T) {
	left := *r
	left.T, left.acked = t, maps.Clone(r.acked)
	mend(t, r.clock, &left)
}

// checked is a store that a test checks and drains.
type checked interface {
	check(repair bool) contract.CheckReport
	sound()
	drain()
}

// mend repairs a store once. The store must then be sound, and stay sound while it is drained. Then
// the clock is set back.
func mend(t *testing.T, clock *clock.Fake, store checked) {
	report := store.check(true)
	if report.Repaired != len(report.Faults) {
		t.Errorf("%d of %d faults were repaired: %+v", report.Repaired, len(report.Faults), report.Faults)
	}
	store.sound()
	began := clock.Now()
	store.drain()
	store.sound()
	clock.Step(began.Sub(clock.Now()))

	if t.Failed() {
		t.Logf("the repair reported %+v", report.Faults)
	}
}

// snapshot returns all data of the server: keys and values alternately.
func (x *interrupter) snapshot(t *testing.T) (all []any) {
	t.Helper()
	for _, key := range x.must(t, "KEYS", "*").([]any) {
		all = append(all, key, x.must(t, "DUMP", key))
	}
	return all
}

// restore replaces the data of the server.
func (x *interrupter) restore(t *testing.T, all []any) {
	t.Helper()
	const script = `redis.call('FLUSHALL') for i = 1, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end`
	x.must(t, append([]any{"EVAL", script, 0}, all...)...)
}

// listen runs f and returns the script calls that the server received.
func (x *interrupter) listen(t *testing.T, f func()) (calls []scriptCall) {
	t.Helper()
	// Only the connection of this call monitors, because a server with a monitor
	// reports every command of every script and every restored key.
	monitor := x.dial(t)
	defer monitor.Close()
	if _, err := monitor.Do(t.Context(), "MONITOR"); err != nil {
		t.Fatal(err)
	}

	begin, end := "begin "+t.Name(), "end "+t.Name()
	x.must(t, "ECHO", begin)
	f()
	x.must(t, "ECHO", end)
	heard := false
	for {
		line, err := monitor.Receive()
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(fmt.Sprint(line), "] ")
		args := unquoted(text)
		if strings.Contains(fmt.Sprint(line), " lua] ") || len(args) < 2 {
			continue
		}
		switch name := x.names[args[1]]; {
		case args[0] == "ECHO" && args[1] == begin:
			heard = true
		case args[0] == "ECHO" && args[1] == end:
			return calls
		case heard && name != "":
			c := scriptCall{name: name}
			for _, a := range args[2:] {
				c.args = append(c.args, a)
			}
			calls = append(calls, c)
		}
	}
}

// unquoted splits a command into its words, as the server logs them.
func unquoted(text string) (args []string) {
	for {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return args
		}
		arg, _ := strconv.Unquote(quoted)
		args = append(args, arg)
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
}
