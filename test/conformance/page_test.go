package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/sqliteengine"
)

// reader runs the examples of a page in a folder next to the server's, as a new user would.
type reader struct {
	t                 *testing.T
	folder            string
	setup             string            // the lines that set the variables
	yours             *strings.Replacer // replaces invented values of the page by the real ones
	id                string            // of the token that an example has created
	topics, schedules bool              // what the engine supports
}

// example is a command of the page with the response that the page shows.
type example struct {
	title, command, answer string
	empty                  bool
}

var (
	sections  = regexp.MustCompile("(?s)\n### `([^`]+)`\n(.*?)(?:\n##|$)")
	commands  = regexp.MustCompile("(?s)```sh\n(.*?)\n```")
	answers   = regexp.MustCompile("(?s)```json\n(.*?)\n```")
	madeUpOne = "mail:0:01J0000000000000000000000A:1"
	madeUpTwo = "mail:0:01J0000000000000000000000B:1"

	madeUpOperation = "01J0000000000000000000000E"
)

// TestExamplesOfTheHTTPAPIRun runs the examples of docs/http-api.md in order. Each response must
// match the page.
func TestExamplesOfTheHTTPAPIRun(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "sh", "curl")
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "http-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	setup := commands.FindStringSubmatch(string(page))[1]
	r := &reader{t: t, folder: t.TempDir(), yours: strings.NewReplacer(), setup: setup}
	r.serve()
	n := 0
	for rest := string(page); ; n++ {
		m := sections.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		e := example{title: rest[m[2]:m[3]]}
		text := rest[m[4]:m[5]]
		rest = rest[m[5]:]
		e.command = commands.FindStringSubmatch(text)[1]
		e.empty = strings.Contains(text, "Answers 204")
		if a := answers.FindStringSubmatch(text); a != nil {
			e.answer = a[1]
		}
		if strings.Contains(e.title, "/schedules") && !r.schedules {
			continue
		}
		if strings.Contains(e.title, "/topics") && !r.topics {
			continue
		}
		r.run(e)
	}
	if n < 25 {
		t.Errorf("the page has %d examples; did its format change?", n)
	}
}

// serve starts a server with its folder next to the reader's.
func (r *reader) serve() {
	r.t.Helper()
	data := filepath.Join(r.folder, "duly-data")
	if err := os.Mkdir(data, 0o700); err != nil {
		r.t.Fatal(err)
	}
	e := r.open(filepath.Join(data, "duly.db"))
	_, r.topics = any(e).(contract.Topics)
	_, r.schedules = any(e).(duly.Scheduler)
	p, err := pools.New(pools.Config{Logger: slog.New(slog.DiscardHandler), Engines: map[string]pools.Engine{
		contract.DefaultPool: {Open: e}, "orders": {Open: r.open(filepath.Join(data, "orders.db"))},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	// The page also shows what its examples do not create: another queue, an order key for which a job
	// waits, delayed jobs for an operation, and a namespace that moves slowly.
	seven := duly.Job{Queue: "video", ID: "clip:7", Delay: time.Hour}
	eight, nine := seven, seven
	eight.ID, nine.ID = "clip:8", "clip:9"
	shop, ada := duly.Job{Namespace: "shop", Queue: "q"}, duly.Job{Queue: "mail", OrderKey: "ada"}
	_, err = p.Push(r.t.Context(), []duly.Job{{Queue: "video"}, ada, ada, seven, eight, nine, shop, shop, shop, shop})
	for namespace, queue := range map[string]string{"": "mail", "shop": "q"} {
		params := duly.ReserveParams{Namespace: namespace, Queues: []string{queue}, Max: 1, Lease: time.Hour}
		if err == nil {
			_, err = p.Reserve(r.t.Context(), params)
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	keys, err := seal.Create(filepath.Join(data, "push.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Pools: p, Store: server.Store{Backuper: e}, Push: &server.PushConfig{Keys: keys}, UI: &server.UIConfig{},
		Listen: server.Listen{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", DataDir: data},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = s.Listen(r.t.Context())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	r.t.Cleanup(func() { stop(); <-done })
}

func (r *reader) open(path string) *sqliteengine.Engine {
	r.t.Helper()
	e, err := sqliteengine.Open(r.t.Context(), sqliteengine.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { e.Close() })
	return e
}

// run runs one example and compares its response with the page. An operation works in the background, so its progress
// is read until it is that of the page.
func (r *reader) run(e example) {
	r.t.Helper()
	problems := r.try(e)
	for deadline := time.Now().Add(patience); len(problems) > 0 && progress.MatchString(e.title); problems = r.try(e) {
		if time.Now().After(deadline) {
			break
		}
	}
	for _, problem := range problems {
		r.t.Errorf("%s: %s", e.title, problem)
	}
}

// progress matches the routes that show the progress of an operation.
var progress = regexp.MustCompile(`^GET .*/operations`)

// patience is how long the progress of the page may take on a busy machine.
const patience = 10 * time.Second

// try runs one example. It returns what differs from the page.
func (r *reader) try(e example) []string {
	r.t.Helper()
	script := r.setup + "\n" + r.yours.Replace(e.command) + ` -w '\n%{http_code}'`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = r.folder, append(os.Environ(), "ID="+r.id)
	out, err := cmd.CombinedOutput()
	at := strings.LastIndexByte(string(out), '\n')
	if err != nil || at < 0 {
		r.t.Fatalf("%s: %v: %s", e.title, err, out)
	}
	body, status := string(out[:at]), string(out[at+1:])
	if status[0] != '2' || e.empty != (status == "204") {
		return []string{status + " " + body}
	}
	if e.answer == "" || callsReceiver.MatchString(e.title) {
		return nil
	}
	body = body[strings.LastIndexByte(strings.TrimRight(body, "\n"), '\n')+1:] // the last of several lines
	var got, want any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		return []string{err.Error() + " in " + body}
	}
	if err := json.Unmarshal([]byte(e.answer), &want); err != nil {
		r.t.Fatalf("%s: %v", e.title, err)
	}
	r.note(got)
	return differences("", got, want)
}

// callsReceiver matches routes that show the answer of a receiver. The receiver of the page does
// not exist.
var callsReceiver = regexp.MustCompile(`/push/targets/\{name\}/test|/push/hosts`)

// steady matches the fields whose values are the same in every run.
var steady = regexp.MustCompile(`^(ok|ready|outcome|state|status|queue|body|error|rights|description|purged|attempt)$`)

// differences returns what the real response lacks of the page's.
func differences(field string, got, want any) (problems []string) {
	switch want := want.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		for name, value := range want {
			if _, ok := have[name]; !ok {
				problems = append(problems, fmt.Sprintf("the answer has no %s: %v", name, got))
				continue
			}
			problems = append(problems, differences(name, have[name], value)...)
		}
	case []any:
		have, _ := got.([]any)
		if len(have) == 0 && len(want) > 0 {
			return []string{field + " is empty"}
		}
		for i := range min(len(have), len(want)) {
			problems = append(problems, differences(field, have[i], want[i])...)
		}
	default:
		_, size := want.(float64)
		size = size && field == "ready"               // the number of a queue, not the result of a wait
		begun := want == "queued" && field == "state" // an operation begins at once
		if steady.MatchString(field) && !size && !begun && got != want {
			problems = append(problems, fmt.Sprintf("%s is %v, the page says %v", field, got, want))
		}
	}
	return problems
}

// note stores what later examples need.
func (r *reader) note(answer any) {
	fields, _ := answer.(map[string]any)
	if _, made := fields["token"]; made {
		r.id, _ = fields["id"].(string)
	}
	if list, _ := fields["deliveries"].([]any); len(list) == 2 {
		one, _ := list[0].(map[string]any)["receipt"].(string)
		two, _ := list[1].(map[string]any)["receipt"].(string)
		r.yours = strings.NewReplacer(madeUpOne, one, madeUpTwo, two)
	}
	if _, started := fields["counted"]; started {
		id, _ := fields["id"].(string)
		r.yours = strings.NewReplacer(madeUpOperation, id)
	}
}
