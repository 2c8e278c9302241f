package httpengine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/httpengine"
)

// C11.4, C11.5: a URL has a token, a host and a namespace. The token is not printed.
func TestURLHasTokenHostAndNamespace(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, token, prints, namespace string }{
		{"http://" + token + "@127.0.0.1:7777/default", "", "http://***@127.0.0.1:7777/default", "default"},
		{"https://" + token + "@duly.example.com/shop", "", "https://***@duly.example.com/shop", "shop"},
		{"https://duly.example.com/shop", token, "https://***@duly.example.com/shop", "shop"},
		{"https://" + token + "@duly.example.com", "another", "https://***@duly.example.com/default", "default"},
		{"https://" + token + "@duly.example.com/", "", "https://***@duly.example.com/default", "default"},
		{"http://duly.example.com/-a_b.C", "", "http://duly.example.com/-a_b.C", "-a_b.C"},
		{"http://[::1]:7777/a", token, "http://***@[::1]:7777/a", "a"},
	}

	for _, tt := range tests {
		e, err := httpengine.Open(context.Background(), httpengine.Config{URL: tt.url, Token: tt.token})
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if e.String() != tt.prints || e.Namespace() != tt.namespace {
			t.Errorf("%s is printed as %s and serves %q", tt.url, e, e.Namespace())
		}
	}
}

// C11.3, C11.4, C11.5: the error of a bad URL has the fix, and does not repeat the URL.
func TestBadURLIsRefusedAndNotRepeated(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "S3CRET", "://S3CRET", "http://S3CRET@", "http:///S3CRET", "ftp://S3CRET@host/a", "http://S3CRET@ho st/a",
		"http://S3CRET@host:port/a",
		"http://S3CRET:pass@host/a", "http://S3CRET@host/a/b", "http://S3CRET@host/..", "http://S3CRET@host/a%2fb",
		"http://S3CRET@host/%zz",
		"http://S3CRET@host/a?durable=1", "http://S3CRET@host/a?", "http://S3CRET@host/a#x", "http://S3CRET%0a@host/a",
		"http://S3CRET%20@host/a",
		"http://host/" + strings.Repeat("a", 256),
	} {
		_, err := httpengine.Open(context.Background(), httpengine.Config{URL: url})
		wants(t, fmt.Sprintf("%q", url), err, duly.CodeInvalid)
	}

	for _, secret := range []string{"S3CRET\n", "S3CRET ", "S3CRETä"} {
		_, err := httpengine.Open(context.Background(), httpengine.Config{URL: "http://host/a", Token: secret})
		wants(t, "a token that is none", err, duly.CodeInvalid)
	}
	for _, url := range []string{"", "http://S3CRET@host/default", "S3CRET@host", "http://S3CRET@host?x=1"} {
		_, err := httpengine.OpenAdmin(context.Background(), httpengine.AdminConfig{URL: url})
		wants(t, fmt.Sprintf("%q for an admin", url), err, duly.CodeInvalid)
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]httpengine.Config{
		"timeout": {Timeout: -1}, "poll": {Poll: duly.MaxWait + 1},
	} {
		cfg.URL = "http://host/a"
		_, err := httpengine.Open(context.Background(), cfg)
		wants(t, field, err, duly.CodeInvalid)
		if err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// C11.5: no format prints the token of an engine or a configuration.
func TestTokenIsPrintedNowhere(t *testing.T) {
	t.Parallel()
	cfg := httpengine.Config{URL: "http://" + token + "@host/a", Token: token}
	admin := httpengine.AdminConfig{URL: "http://" + token + "@host", Token: token}
	e, err := httpengine.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, err := httpengine.OpenAdmin(context.Background(), admin)
	if err != nil {
		t.Fatal(err)
	}

	for _, v := range []any{cfg, &cfg, admin, &admin, e, a, httpengine.Config{URL: "://" + token},
		httpengine.AdminConfig{URL: "://" + token}} {
		text := fmt.Sprintf("%v %+v %#v %s", v, v, v, v)
		if j, err := json.Marshal(v); err == nil {
			text += string(j)
		}
		if strings.Contains(text, "S3CRET") {
			t.Errorf("%T is printed as %s", v, text)
		}
	}
}
