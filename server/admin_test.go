package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
)

// C14.28: a check writes a line for each step of progress, and then the report.
func TestCheckStreamsItsProgress(t *testing.T) {
	t.Parallel()
	m := &busyMaintainer{goOn: make(chan struct{})}
	f := serve(t, func(c *Config) {
		m.Maintainer, m.clock = c.Store.Maintainer, c.Clock.(interface{ Advance(time.Duration) })
		c.Store.Maintainer = m
	})
	req, _ := http.NewRequest("POST", f.admin.URL+"/admin/check", strings.NewReader(`{"repair":true}`))
	req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)

	for i := 1; i <= 3; i++ {
		if !lines.Scan() || lines.Text() != fmt.Sprintf(`{"done":%d,"total":3}`, i) {
			t.Fatalf("line %d: %q", i, lines.Text())
		}
		m.goOn <- struct{}{}
	}

	want := `{"report":{"jobs":3,"messages":5,"repaired":1,"faults":[{"kind":"counters_differ",` +
		`"namespace":"default","queue":"q","repaired":true}]}}`
	if !lines.Scan() || lines.Text() != want || lines.Scan() {
		t.Errorf("last line: %q", lines.Text())
	}
}

type busyMaintainer struct {
	contract.Maintainer
	clock interface{ Advance(time.Duration) }
	goOn  chan struct{}
}

func (m *busyMaintainer) Check(_ context.Context, p contract.CheckParams) (contract.CheckReport, error) {
	for i := range int64(3) {
		m.clock.Advance(time.Second)
		p.Progress(i+1, 3)
		p.Progress(i+1, 3) // comes too soon for another line of progress
		<-m.goOn
	}
	return contract.CheckReport{Jobs: 3, Messages: 5, Repaired: 1,
		Faults: []contract.Fault{{Kind: "counters_differ", Queue: duly.Q("q"), Repaired: p.Repair}}}, nil
}

type panicMaintainer struct{ contract.Maintainer }

func (panicMaintainer) Check(context.Context, contract.CheckParams) (contract.CheckReport, error) {
	panic("CANARY")
}

func TestPanicInCheckIsItsLastLine(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.Store.Maintainer = panicMaintainer{} })
	a := f.send("POST", "/admin/check", "")
	if !strings.Contains(a.body, `"code":"internal"`) || strings.Contains(a.body, "CANARY") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// C14.29, fault X3: a token is shown once. Only its hash is stored.
func TestCreatedTokenIsShownOnceAndWorks(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	a := f.send("POST", "/admin/tokens", `{"namespace":"shop","rights":["produce"],"description":"the shop"}`)
	var made struct{ Token, Namespace string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	hash, ok := auth.Hash(made.Token)
	stored, err := f.engine.FindToken(t.Context(), hash)
	if !ok || err != nil || stored.Namespace != "shop" || stored.Rights != contract.RightProduce {
		t.Errorf("stored %+v, %v", stored, err)
	}
	f.tokens["new"] = made.Token
	if a := f.send("POST", "/v1/shop/push", `{"jobs":[{"queue":"q"}]}`, "new"); a.status != 200 {
		t.Errorf("the new token: %d %s", a.status, a.body)
	}
	if err := f.guard.Revoke(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	if a := f.send("POST", "/v1/shop/push", `{"jobs":[{"queue":"q"}]}`, "new"); a.status != 401 {
		t.Errorf("the revoked token: %d", a.status)
	}

	for _, bad := range []string{`{}`, `{"namespace":"a"}`, `{"rights":["admin"]}`,
		`{"namespace":"a","rights":["root"]}`, `{"namespace":"a/b","rights":["admin"]}`,
		`{"namespace":"a","rights":["admin"],"token":"duly_x"}`,
		`{"namespace":"a","rights":["admin"],"description":"a\nb"}`} {
		if a := f.send("POST", "/admin/tokens", bad); a.status != 400 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
}

// C14.30: tokens are listed without their texts, page by page. They are revoked by the hashes in
// the list.
func TestTokensAreListedAndRevoked(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	list := func(query string) (ids []string) {
		t.Helper()
		for cursor := ""; ; {
			a := f.send("GET", "/admin/tokens?limit=2"+query+cursor, "")
			page, err := wire.TokensForm.ReadAnswer(a.body)
			if a.status != 200 || err != nil {
				t.Fatalf("%d %s", a.status, a.body)
			}
			for _, token := range page.Tokens {
				ids = append(ids, wire.TokenID(token.Hash))
			}
			if page.Next == "" {
				return ids
			}
			cursor = "&cursor=" + page.Next
		}
	}

	if all, ours, everybodys, nobodys := list(""), list("&namespace=default"), list("&namespace=*"),
		list("&namespace=x"); len(all) != 6 || len(ours) != 3 || len(everybodys) != 2 || len(nobodys) != 0 {
		t.Errorf("%d tokens, %d of default, %d of all namespaces, %d of x", len(all), len(ours), len(everybodys),
			len(nobodys))
	}
	id := f.id("produce")
	if !slices.Contains(list("&namespace=default"), id) {
		t.Error("the token is not in the list")
	}

	for range 2 {
		want := 204
		if !slices.Contains(list(""), id) {
			want = 404
		}
		if a := f.send("DELETE", "/admin/tokens/"+id, ""); a.status != want {
			t.Errorf("%d %s, want %d", a.status, a.body, want)
		}
	}

	if slices.Contains(list(""), id) {
		t.Error("the revoked token is in the list")
	}
	if a := f.send("DELETE", "/admin/tokens/"+f.id("operator"), ""); a.status != 409 ||
		!strings.Contains(a.body, "create another one first") {
		t.Errorf("the last operator: %d %s", a.status, a.body)
	}

	for _, bad := range []string{"x", f.id("consume")[1:], f.id("consume") + "0", strings.Repeat("g", 64),
		f.tokens["consume"]} {
		if a := f.send("DELETE", "/admin/tokens/"+bad, ""); a.status != 400 ||
			strings.Contains(a.body, bad) && len(bad) > 1 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	for _, bad := range []string{"?namespace=a%2Fb", "?namespace=**", "?limit=0", "?cursor=x", "?id=1"} {
		if a := f.send("GET", "/admin/tokens"+bad, ""); a.status != 400 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	if text := f.log.String(); !strings.Contains(text, `"token revoked","request"`) ||
		!strings.Contains(text, `"by":"`+f.id("operator")[:8]) {
		t.Error("the log has no line for the revocation")
	}
}

type fakeBackup struct{ fail bool }

func (b fakeBackup) Backup(_ context.Context, w io.Writer) error {
	w.Write([]byte("half"))
	if b.fail {
		return errors.New("CANARY")
	}
	_, err := w.Write([]byte(" and half"))
	return err
}

// C14.32: the answer is the file. A backup that fails is cut off.
func TestBackupIsWholeOrCutOff(t *testing.T) {
	t.Parallel()
	if a := serve(t, nil).send("POST", "/admin/backup", ""); a.status != 501 {
		t.Errorf("without a backuper: %d %s", a.status, a.body)
	}
	f := serve(t, func(c *Config) { c.Store.Backuper = fakeBackup{} })

	a := f.send("POST", "/admin/backup", "")
	if a.status != 200 || a.body != "half and half" {
		t.Errorf("%d %q", a.status, a.body)
	}
	if got := a.header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="`) ||
		!strings.HasSuffix(got, `.db"`) {
		t.Errorf("the file's name is in %q", got)
	}
	f = serve(t, func(c *Config) { c.Store.Backuper = fakeBackup{fail: true} })
	req, _ := http.NewRequest("POST", f.admin.URL+"/admin/backup", nil)
	req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString(0); err == nil ||
		!strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("a backup that failed reads as whole: %v", err)
	}
}
