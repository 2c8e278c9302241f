package httpengine_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C16.137, C16.138, C16.139, C16.140, C16.141, C16.143: each call is one request of the
// documented form.
func TestEachPushCallIsOneRequest(t *testing.T) {
	serve := func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == "/v1/shop/push/targets":
			reply(w, http.StatusOK, `{"targets":[{"name":"crm","url":"https://a.example/","enabled":false,`+
				`"own_secret":true,"version":3}],"next":"crm"}`)
		case req.Method == "GET" && req.URL.Path == "/v1/shop/push/targets/crm":
			reply(w, http.StatusOK, `{"name":"crm","url":"https://a.example/","enabled":true,"header_names":["x"],`+
				`"own_secret":false,"version":1}`)
		case req.Method == "GET":
			reply(w, http.StatusOK, `{"secret":"whsec_x","private_key":"whsk_x","public_key":"whpk_x"}`)
		case req.URL.Path == "/v1/shop/push/targets/crm/test":
			reply(w, http.StatusOK, `{"status":204,"as":"ack","took":"5ms","webhook_id":"id"}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
	inBubble(t, serve, func(t *testing.T, r *rig) {
		p, ctx := r.HTTPPush(), t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		targets, next, err := p.Targets(ctx, duly.PageParams{Limit: 7, Cursor: "a"})
		must(err)
		if len(targets) != 1 || targets[0].Name != "crm" || !targets[0].Settings.Disabled || !targets[0].OwnSecret ||
			next != "crm" {
			t.Errorf("the targets are %+v, then %q", targets, next)
		}
		target, err := p.Target(ctx, "crm")
		must(err)
		if target.Settings.URL != "https://a.example/" || fmt.Sprint(target.HeaderNames) != "[x]" {
			t.Errorf("the target is %+v", target)
		}
		hour := time.Hour
		must(p.SetTarget(ctx, "crm", contract.PushTargetSettings{URL: "https://a.example/", Secret: "whsec_y"}))
		must(p.EnableTarget(ctx, "crm", true))
		must(p.EnableTarget(ctx, "crm", false))
		must(p.RotateSecret(ctx, "crm", contract.PushRotation{Overlap: &hour}))
		must(p.RotateSecret(ctx, "", contract.PushRotation{}))
		for _, name := range []string{"crm", ""} {
			secret, err := p.Secret(ctx, name)
			must(err)
			if secret != (contract.PushSecret{Secret: "whsec_x", PrivateKey: "whsk_x", PublicKey: "whpk_x"}) {
				t.Errorf("the secret is %+v", secret)
			}
		}
		test, err := p.TestTarget(ctx, "crm")
		must(err)
		if test.Status != 204 || test.As != duly.Ack {
			t.Errorf("the test is %+v", test)
		}
		must(p.DeleteTarget(ctx, "crm"))

		var lines []string
		for _, s := range r.requests() {
			lines = append(lines, s.line+" "+s.body)
		}
		want := []string{
			"GET /v1/shop/push/targets?cursor=a&limit=7 ",
			"GET /v1/shop/push/targets/crm ",
			`PUT /v1/shop/push/targets/crm {"url":"https://a.example/","enabled":true,"headers":{},"secret":"whsec_y"}`,
			"POST /v1/shop/push/targets/crm/enable ",
			"POST /v1/shop/push/targets/crm/disable ",
			`POST /v1/shop/push/targets/crm/rotate {"overlap":"1h"}`,
			"POST /v1/shop/push/secret/rotate {}",
			"GET /v1/shop/push/targets/crm/secret ",
			"GET /v1/shop/push/secret ",
			"POST /v1/shop/push/targets/crm/test ",
			"DELETE /v1/shop/push/targets/crm ",
		}
		if fmt.Sprintf("%q", lines) != fmt.Sprintf("%q", want) {
			t.Errorf("the requests are\n%q, want\n%q", lines, want)
		}
	})
}
