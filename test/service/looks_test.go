package service

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/server/lmstfy"
)

// look is a request to one of a server's routes.
type look struct{ method, url, body string }

// routes returns all routes of both APIs and both addresses, from the server's own document and
// from the table of the compatible API.
func (s *served) routes() (all []look) {
	s.t.Helper()
	_, text, _ := s.call("GET", s.url+"/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Example any }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		s.t.Fatal(err)
	}
	fill := strings.NewReplacer("{namespace}", "ns", "{queue}", "q", "/tokens/{id}", "/tokens/"+strings.Repeat("0", 64),
		"{id}", "a", "{profile}", "heap", "{token}", "some-token")
	for path, methods := range doc.Paths {
		base := s.url
		if strings.HasPrefix(path, "/admin/") || strings.HasPrefix(path, "/debug/") {
			base = s.admin
		}
		for method, op := range methods {
			body := ""
			for _, c := range op.RequestBody.Content {
				b, _ := json.Marshal(c.Example)
				body = strings.ReplaceAll(string(b), `"30s"`, `"0s"`)
			}
			all = append(all, look{strings.ToUpper(method), base + fill.Replace(path), body})
		}
	}
	for _, r := range lmstfy.New(nil, nil, nil, nil, clock.System()).Routes() {
		all = append(all, look{r.Method, s.url + fill.Replace(r.Path), "1"})
	}
	for _, r := range new(lmstfy.Admin).Routes() {
		all = append(all, look{r.Method, s.admin + fill.Replace(r.Path), `{"read":1,"interval":1}`})
	}
	if len(all) < 50 {
		s.t.Errorf("only %d routes were found", len(all))
	}
	slices.SortFunc(all, func(a, b look) int { return strings.Compare(a.method+a.url, b.method+b.url) })
	return all
}

// fill stores jobs in every state, tokens and a configured queue.
func (s *served) fill(t *testing.T) {
	t.Helper()
	for _, c := range []look{
		{"PATCH", "/v1/ns/queues/q", `{"max_leased":10,"defaults":{"tries":1}}`},
		{"POST", "/v1/ns/push", `{"jobs":[{"queue":"q","id":"dead"}]}`},
		{"POST", "/v1/ns/reserve", `{"queues":["q"]}`},
		{"POST", "/v1/ns/settle", `{"outcomes":[{"receipt":"RECEIPT","as":"bury","error":"e"}]}`},
		{"POST", "/v1/ns/push", `{"jobs":[{"queue":"q","id":"leased"}]}`},
		{"POST", "/v1/ns/reserve", `{"queues":["q"],"lease":"1h"}`},
		{"POST", "/v1/ns/push", `{"jobs":[{"queue":"q","id":"a"},` +
			`{"queue":"q","id":"later","delay":"1h","ttl":"5h"},{"queue":"q","id":"k1","order_key":"k"},` +
			`{"queue":"q","id":"k2","order_key":"k"},{"queue":"q","id":"m","merge":{"key":"m"}}]}`},
	} {
		status, answer, _ := s.call(c.method, s.url+c.url, strings.ReplaceAll(c.body, "RECEIPT", s.receipt))
		if status/100 != 2 || strings.Contains(answer, `"error":`) {
			t.Fatalf("%s: %d %s", c.url, status, answer)
		}
		if m := regexp.MustCompile(`"receipt":"([^"]+)"`).FindStringSubmatch(answer); m != nil {
			s.receipt = m[1]
		}
	}
}

// TestReadingChangesNothing sends every GET and HEAD of all routes (fault X17). The store must not
// change by a single byte.
func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) (s *served, dump func() string){"SQLite": dumpsAFile,
		"Redis": dumpsRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dump := begin(t)
			s.fill(t)
			before := dump()
			n := 0
			for _, l := range s.routes() {
				if l.method != http.MethodGet || l.url == s.url+"/api/ns/q" { // this GET consumes a job
					continue
				}
				for _, url := range []string{l.url, strings.ReplaceAll(l.url, "/ns/", "/nowhere/"),
					strings.ReplaceAll(l.url, "/q/", "/unheard-of/"), l.url + "?state=dead&bodies=true&limit=3"} {
					s.call(http.MethodGet, url, "")
					s.call(http.MethodHead, url, "")
					n += 2
				}
			}
			if after := dump(); after != before || len(before) < 1000 {
				t.Errorf("%d reads have changed the store; before:\n%s\nafter:\n%s", n, before, after)
			}
		})
	}
}

// dumpsAFile returns a server and a function that dumps every row of every table. It reads a
// backup, because the server has the file open.
func dumpsAFile(t *testing.T) (*served, func() string) {
	s := serve(t, onFile(t))
	return s, func() string {
		status, file, _ := s.call("POST", s.admin+"/admin/backup", "")
		if status != 200 {
			t.Fatalf("backup: %d %.300s", status, file)
		}
		path := filepath.Join(t.TempDir(), "copy.db")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var b strings.Builder
		for _, table := range rows(t, db, `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`) {
			name := strings.Trim(table, "[]")
			fmt.Fprintf(&b, "%s\n%s\n", name, strings.Join(rows(t, db, `SELECT * FROM "`+name+`"`), "\n"))
		}
		return b.String()
	}
}

func rows(t *testing.T, db *sql.DB, query string) (texts []string) {
	t.Helper()
	found, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for found.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := found.Scan(values...); err != nil {
			t.Fatal(err)
		}
		row := make([]any, len(values))
		for i, v := range values {
			row[i] = *v.(*any)
		}
		texts = append(texts, fmt.Sprint(row))
	}
	slices.Sort(texts)
	return texts
}

// dumpsRedis returns a server and a function that dumps every key with its value.
func dumpsRedis(t *testing.T) (*served, func() string) {
	redis := redistest.Single(t)
	return serve(t, redis.URL()), func() string {
		var all []string
		keys, _ := redis.Must("KEYS", "*").([]any)
		for _, k := range keys {
			all = append(all, fmt.Sprintf("%s %q", k, redis.Must("DUMP", k)))
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
}

// inside matches internals that no response may contain: addresses, commands, statements, keys
// and source positions.
var inside = regexp.MustCompile(`(?i)127\.0\.0\.1|redis|dial|refused|evalsha|select |sqlite|\.db|goroutine|\.go:|\{ns\}|0x[0-9a-f]{6}`)

// TestFailureRevealsNoInternals stops the store (fault X20). Every route must answer without
// revealing internals, and the process must not crash.
func TestFailureRevealsNoInternals(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	s := serve(t, redis.URL())
	s.fill(t)
	all := s.routes()
	redis.Kill()
	var failures atomic.Int64
	var asking sync.WaitGroup
	for _, l := range all { // concurrently, because each waits for the store until its timeout
		asking.Go(func() {
			status, answer, _, err := s.try(l.method, l.url, l.body)
			if err != nil {
				t.Error(err)
			}
			if status < 500 || status == http.StatusNotImplemented {
				return
			}
			failures.Add(1)
			if m := inside.FindString(answer); m != "" {
				t.Errorf("%s %s: %d contains %q: %s", l.method, l.url, status, m, answer)
			}
		})
	}
	asking.Wait()
	if n := failures.Load(); n < 25 {
		t.Errorf("%d of %d routes failed without their store", n, len(all))
	}
	redis.Restart()
	redistest.Await(t, "the server to be ready again", func() bool {
		status, _, _ := s.call("GET", s.url+"/readyz", "")
		return status == 200
	})
}
