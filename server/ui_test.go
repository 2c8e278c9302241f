package server

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// C14.53: the dashboard is only on the admin address, and only if it is configured. Its cookie opens no API.
func TestDashboardIsOnTheAdminAddress(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.UI = &UIConfig{} })
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, at string, form url.Values, cookie string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		if cookie != "" {
			req.Header.Set("Cookie", cookie)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}

	login := send("POST", f.admin.URL+UIPath+"/login", url.Values{"token": {f.tokens["operator"]}}, "")
	cookie, _, _ := strings.Cut(login.Header.Get("Set-Cookie"), ";")
	page := UIPath + "/n/default/queues"
	for _, tt := range []struct {
		at   string
		want int
	}{
		{f.admin.URL + page, http.StatusOK},
		{f.api.URL + page, http.StatusNotFound},
		{f.admin.URL + "/admin/tokens", http.StatusUnauthorized},
		{f.api.URL + "/v1/default/queues", http.StatusUnauthorized},
		{f.admin.URL + "/metrics", http.StatusUnauthorized},
	} {
		if got := send("GET", tt.at, nil, cookie).StatusCode; got != tt.want {
			t.Errorf("%s with the cookie has the status %d, want %d", tt.at, got, tt.want)
		}
	}

	// C14.56: the admin address creates login codes.
	if a := f.send("POST", "/admin/login-codes", ""); a.status != http.StatusCreated ||
		!strings.Contains(a.body, `"path":"/ui/login?code=`) {
		t.Errorf("a login code: %d %s", a.status, a.body)
	}
	if a := f.send("POST", "/admin/login-codes", `{"x":1}`); a.status != http.StatusBadRequest {
		t.Errorf("a login code with a field: %d", a.status)
	}

	without := serve(t, nil)
	if a := without.send("POST", "/admin/login-codes", ""); a.status != http.StatusNotImplemented {
		t.Errorf("without the dashboard a login code: %d %s", a.status, a.body)
	}
	if got := send("GET", without.admin.URL+page, nil, cookie).StatusCode; got != http.StatusNotFound {
		t.Errorf("without the dashboard its page has the status %d", got)
	}
}

// C14.59: a server keeps the history of a namespace whose page a session has opened, in its data folder.
func TestDashboardKeepsHistory(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	f := serve(t, func(c *Config) { c.UI, c.Listen.DataDir = &UIConfig{}, data })
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	f.startUpkeep(ctx, &running)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	form := url.Values{"token": {f.tokens["operator"]}}.Encode()
	req, err := http.NewRequestWithContext(ctx, "POST", f.admin.URL+UIPath+"/login", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	login, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	login.Body.Close()
	if req, err = http.NewRequestWithContext(ctx, "GET", f.admin.URL+UIPath+"/n/default/queues", nil); err != nil {
		t.Fatal(err)
	}
	req.AddCookie(login.Cookies()[0])
	page, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	stop()
	running.Wait()
	text, err := os.ReadFile(filepath.Join(data, "ui-history"))
	if err != nil || !strings.Contains(string(text), "default") {
		t.Errorf("the page has the status %d, the history %q, %v", page.StatusCode, text, err)
	}
}
