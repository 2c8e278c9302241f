package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// C15.57: ui prints a link that opens one session, and starts a browser with it unless --print or --json is set.
func TestUI(t *testing.T) {
	t.Parallel()
	r := remoteRig(t)
	run := func(fail error, args ...string) (out, opened string) {
		var stdout, stderr strings.Builder
		env := r.remoteEnv(r.env(&stdout, &stderr, append([]string{"ui"}, args...)...))
		env.Browse = func(url string) error { opened = url; return fail }
		if code := Run(t.Context(), env); code != exitOK {
			t.Fatalf("ui %v: exit %d, %s", args, code, stderr.String())
		}
		return strings.TrimSpace(stdout.String()), opened
	}
	link, opened := run(nil)
	if link == "" || opened != link {
		t.Errorf("ui prints %q and opens %q", link, opened)
	}
	if link, opened := run(errors.New("no desktop")); opened != link {
		t.Errorf("without a browser ui prints %q", link)
	}
	if link, opened := run(nil, "--print"); link == "" || opened != "" {
		t.Errorf("--print prints %q and opens %q", link, opened)
	}
	out, opened := run(nil, "--json")
	var printed struct{ URL string }
	if err := json.Unmarshal([]byte(out), &printed); err != nil || printed.URL == "" || opened != "" {
		t.Errorf("--json prints %q and opens %q: %v", out, opened, err)
	}

	// A preview of the link does not use the code up, a login does.
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		if resp, err := client.Get(link); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("the link answers %v, %v", resp, err)
		}
		form := strings.NewReader(url.Values{"code": {at.Query().Get("code")}}.Encode())
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+at.Host+at.Path, form)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "http://"+at.Host)
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != want {
			t.Errorf("a login with the code answers %v, %v, want %d", resp.Status, err, want)
		}
	}
}

// C15.57: an engine without a server has no dashboard.
func TestUINeedsServer(t *testing.T) {
	t.Parallel()
	code, _, errs := newRig(t).run("ui")
	if code != exitUsage || !strings.Contains(errs, "--admin-url") {
		t.Errorf("ui without a server: exit %d, %s", code, errs)
	}
}
