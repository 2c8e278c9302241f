package service

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// TestSecretsAreSealedInTheStore checks C16.54 and C16.57. Secrets and the header values of
// targets are encrypted before they reach the store. No file, backup, command or script argument
// contains them in plain text.
func TestSecretsAreSealedInTheStore(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Single(t, redistest.AOF("always"), redistest.Config("rdbcompression no"),
			redistest.Config("slowlog-log-slower-than 0"), redistest.Config("slowlog-max-len 1000000"))
		heard := monitor(t, server)
		s := serve(t, server.URL(), "-push-keys", filepath.Join(t.TempDir(), "push.key"))
		c := useSecrets(t, s)

		c.search("the slow log", fmt.Append(nil, server.Must("SLOWLOG", "GET", -1)))
		c.search("the commands that MONITOR shows", unescaped(heard()))
		server.Must("SAVE")
		c.search("the files of Redis", contents(t, server.Folder()))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		s := serve(t, open.File(filepath.Join(folder, "duly.db")), "-push-keys", filepath.Join(t.TempDir(), "push.key"))
		c := useSecrets(t, s)

		c.search("the database and its log", contents(t, folder))
		admin, err := httpengine.OpenAdmin(t.Context(), httpengine.AdminConfig{URL: s.admin, Token: s.token})
		if err != nil {
			t.Fatal(err)
		}
		var backup bytes.Buffer
		if err := admin.Backup(t.Context(), &backup); err != nil {
			t.Fatal(err)
		}
		c.search("the backup", backup.Bytes())
	})
}

// canaries are texts that nothing else contains.
type canaries struct {
	t      *testing.T
	public string            // stored in plain text
	secret map[string]string // secret texts by description
}

func canary() string {
	var b [18]byte
	rand.Read(b[:])
	return "canary" + base64.RawURLEncoding.EncodeToString(b[:])
}

// search reports every secret in a string. The string must contain the public canary. Otherwise the
// search would not find a secret either.
func (c *canaries) search(where string, text []byte) {
	c.t.Helper()
	if !bytes.Contains(text, []byte(c.public)) {
		c.t.Errorf("%s (%d bytes): the public canary is missing", where, len(text))
	}
	for what, secret := range c.secret {
		for _, form := range forms([]byte(secret)) {
			if bytes.Contains(text, form) {
				c.t.Errorf("%s: %s is in plain text", where, what)
				break
			}
		}
	}
}

// forms returns the forms in which a store may have a secret: as it is, in hex, and within a
// longer base64 text, whose start and end depend on the text around it.
func forms(secret []byte) [][]byte {
	list := [][]byte{secret, []byte(hex.EncodeToString(secret))}
	for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := code.AppendEncode(nil, append(make([]byte, before), secret...))
			list = append(list, text[4:len(text)-4])
		}
	}
	return list
}

// useSecrets creates a target with headers and its own secret. It rotates that secret and the
// secret of the namespace, and sends jobs that are signed with all of them.
func useSecrets(t *testing.T, s *served) *canaries {
	t.Helper()
	c := &canaries{t: t, public: canary(), secret: map[string]string{"the header of a target": canary()}}
	header, given := c.secret["the header of a target"], canary()+canary()
	raw := []byte(given)[:32]
	c.add("a given secret", "whsec_"+base64.StdEncoding.EncodeToString(raw))

	var got atomic.Int64
	rc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // echoes everything
		got.Add(1)
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, r.Header)
	}))
	t.Cleanup(rc.Close)

	s.manage("PUT", "/v1/default/push/targets/crm",
		`{"url":"`+rc.URL+`/hook","headers":{"authorization":"Bearer `+header+`"}}`)
	push := func(queue, to string) {
		s.manage("POST", "/v1/default/queues/"+queue+"/jobs", `{"tries":1,"body":"`+c.public+`","callback":"`+to+`"}`)
	}
	push("orders", "target:crm")
	push("orders", rc.URL+"/path")
	c.show(s, "the first secret of the namespace", "/v1/default/push/secret")
	s.manage("POST", "/v1/default/push/secret/rotate", `{"overlap":"1h"}`)
	c.show(s, "the next secret of the namespace", "/v1/default/push/secret")
	s.manage("POST", "/v1/default/push/targets/crm/rotate", `{"overlap":"1h"}`)
	c.show(s, "a made secret of the target", "/v1/default/push/targets/crm/secret")
	s.manage("POST", "/v1/default/push/targets/crm/rotate",
		`{"overlap":"1h","secret":"whsec_`+base64.StdEncoding.EncodeToString(raw)+`"}`)
	c.show(s, "the given secret of the target", "/v1/default/push/targets/crm/secret")
	push("orders", "target:crm")
	push("orders", rc.URL+"/path")
	s.manage("POST", "/v1/default/push/targets/crm/test", "")
	eventually.True(t, "the requests", func() bool { return got.Load() >= 5 })
	eventually.True(t, "the dead jobs", func() bool {
		return strings.Count(s.manage("GET", "/v1/default/queues/orders/jobs?state=dead", ""), `"id"`) == 4
	})
	return c
}

// show adds the secrets that a route shows.
func (c *canaries) show(s *served, what, path string) {
	c.t.Helper()
	var all any
	if err := json.Unmarshal([]byte(s.manage("GET", path, "")), &all); err != nil {
		c.t.Fatal(err)
	}
	n := len(c.secret)
	c.addAll(what, all)
	if len(c.secret) < n+2 { // one for HMAC and one for Ed25519
		c.t.Fatalf("%s shows %v", path, all)
	}
}

func (c *canaries) addAll(what string, v any) {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "whsec_") || strings.HasPrefix(v, "whsk_") {
			c.add(what, v)
		}
	case []any:
		for _, one := range v {
			c.addAll(what, one)
		}
	case map[string]any:
		for name, one := range v {
			c.addAll(what+": "+name, one)
		}
	}
}

// add adds a secret in each form in which it could be stored.
func (c *canaries) add(what, secret string) {
	c.t.Helper()
	_, text, _ := strings.Cut(secret, "_")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) < 24 {
		c.t.Fatalf("%s has no valid secret: %v", what, err)
	}
	c.secret[what+" as text"], c.secret[what+" as bytes"] = text, string(raw)
}

// manage sends a request that must succeed, and returns the body of the response.
func (s *served) manage(method, path, body string) string {
	s.t.Helper()
	status, answer, _ := s.call(method, s.url+path, body)
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// monitor returns what Redis shows of its commands from now on.
func monitor(t *testing.T, server *redistest.Server) (heard func() []byte) {
	t.Helper()
	conn, err := server.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Do(t.Context(), "MONITOR"); err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	var text []byte
	go func() {
		for {
			v, err := conn.Receive()
			if err != nil {
				return
			}
			mu.Lock()
			text = fmt.Append(text, v, "\n")
			mu.Unlock()
		}
	}()
	return func() []byte {
		end := canary()
		server.Must("ECHO", end)
		eventually.True(t, "the last command", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return bytes.Contains(text, []byte(end))
		})
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(text)
	}
}

// unescaped returns the bytes of arguments as MONITOR prints them.
func unescaped(text []byte) (raw []byte) {
	for rest := string(text); rest != ""; {
		c, _, tail, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			c, tail = rune(rest[0]), rest[1:]
		}
		raw, rest = append(raw, byte(c)), tail
	}
	return raw
}

// contents returns all files of a folder, concatenated.
func contents(t *testing.T, folder string) (text []byte) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		one, err := os.ReadFile(path)
		text = append(text, one...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
