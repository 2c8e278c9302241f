package webhook

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/outcome"
	"github.com/dulymq/duly/server/webhook/sign"
)

// C16.144: a test is a signed request through the guard, also if the gate is closed.
func TestTestSendsASignedRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	status := http.StatusNoContent
	var got string
	var verified error
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		library, err := standardwebhooks.NewWebhook(r.secret.V1.Reveal())
		body, _ := io.ReadAll(req.Body)
		if err == nil {
			err = library.Verify(body, req.Header)
		}
		verified, got = err, string(body)
		w.WriteHeader(status)
	})
	to := r.to(t, s.URL+"/secret-path")
	to.Target = "crm"
	pass, _ := r.sender.Gates.Admit(HostOf(to.URL), gate.Bounds{}, false)
	hour := time.Hour
	pass.Done(gate.Result{Health: outcome.Bad, Closes: true, CloseFor: &hour})

	tested, err := r.sender.Test(t.Context(), "shop", to)
	if err != nil || tested.Status != 204 || tested.As != duly.Ack || tested.Error != "" ||
		!strings.HasPrefix(tested.WebhookID, "shop/duly~test/") {
		t.Errorf("%+v, %v", tested, err)
	}
	if verified != nil || !strings.Contains(got, `"type":"duly.test"`) || !strings.Contains(got, `"target":"crm"`) {
		t.Errorf("the receiver got %s, %v", got, verified)
	}

	status = http.StatusForbidden
	tested, err = r.sender.Test(t.Context(), "shop", to)
	if err != nil || tested.Status != 403 || tested.As != duly.Nack ||
		!strings.Contains(tested.Error, "403 Forbidden") || strings.Contains(tested.Error, "secret-path") {
		t.Errorf("%+v, %v", tested, err)
	}

	tested, err = r.sender.Test(t.Context(), "shop", r.to(t, "http://169.254.169.254/latest"))
	if err != nil || tested.As != duly.Bury || tested.Status != 0 {
		t.Errorf("a destination that the guard refuses is tested as %+v, %v", tested, err)
	}

	to.Signer = nil
	if _, err = r.sender.Test(t.Context(), "shop", to); !errors.Is(err, sign.ErrNoSecret) {
		t.Errorf("without a secret: %v", err)
	}
}
