package wire

import (
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The forms of HTTP push are read with the values that were written.
func TestTargetsSurviveTheWire(t *testing.T) {
	t.Parallel()
	overlap, when := time.Duration(0), time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	settings := contract.PushTargetSettings{URL: "https://x/y", Method: "PUT", Headers: map[string]string{"a": "b"},
		Timeout: time.Minute, Success: []int{302, 304}, Permanent: []int{404},
		Concurrency: 7, Rate: duly.Rate{PerSecond: 1.5, Burst: 2}, Sign: []string{"v1", "v1a"}, CA: "pem",
		Disabled: true, Secret: "whsec_x"}
	if got, err := TargetSettingsForm.ReadRequest(string(TargetSettingsForm.Append(nil, settings))); err != nil ||
		!reflect.DeepEqual(got, settings) {
		t.Errorf("settings: %+v, %v", got, err)
	}

	shown := settings
	shown.Headers, shown.Secret = nil, ""
	host := contract.PushHost{Host: "https://x:443", Closed: time.Second, Limit: 3, InFlight: 2, HeldBack: 1,
		Usual: time.Millisecond}
	target := contract.PushTarget{Name: "crm", Settings: shown, HeaderNames: []string{"a"}, OwnSecret: true, OverlapUntil: when,
		Version: 9, Host: &host}
	if got, err := TargetForm.ReadAnswer(string(TargetForm.Append(nil, target))); err != nil ||
		!reflect.DeepEqual(got, target) {
		t.Errorf("a target: %+v, %v", got, err)
	}
	page := TargetPage{Targets: []contract.PushTarget{target}, Next: "crm"}
	if got, err := TargetsForm.ReadAnswer(string(TargetsForm.Append(nil, page))); err != nil ||
		!reflect.DeepEqual(got, page) {
		t.Errorf("targets: %+v, %v", got, err)
	}
	if got, err := PushHostsForm.ReadAnswer(string(PushHostsForm.Append(nil, []contract.PushHost{host}))); err != nil ||
		!reflect.DeepEqual(got, []contract.PushHost{host}) {
		t.Errorf("hosts: %+v, %v", got, err)
	}
	rotate := contract.PushRotation{Overlap: &overlap, Secret: "whsec_x"}
	if got, err := PushRotateForm.ReadRequest(string(PushRotateForm.Append(nil, rotate))); err != nil ||
		!reflect.DeepEqual(got, rotate) {
		t.Errorf("a rotation: %+v, %v", got, err)
	}
	secret := contract.PushSecret{Secret: "a", PrivateKey: "b", PublicKey: "c"}
	if got, err := PushSecretForm.ReadAnswer(string(PushSecretForm.Append(nil, secret))); err != nil || got != secret {
		t.Errorf("a secret: %+v, %v", got, err)
	}
	test := contract.PushTest{Status: 503, As: duly.Nack, Error: "e", Took: time.Second, WebhookID: "w"}
	if got, err := PushTestForm.ReadAnswer(string(PushTestForm.Append(nil, test))); err != nil || got != test {
		t.Errorf("a test: %+v, %v", got, err)
	}
	test = contract.PushTest{As: duly.Nack, Error: "connection refused", WebhookID: "w"}
	if got, err := PushTestForm.ReadAnswer(string(PushTestForm.Append(nil, test))); err != nil || got != test {
		t.Errorf("a test that took less than 1 ms: %+v, %v", got, err)
	}
	for _, bad := range []string{`{"url":7}`, `{"success":["a"]}`, `{"nonsense":1}`, `{"enabled":"yes"}`} {
		if _, err := TargetSettingsForm.ReadRequest(bad); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
