package schedule

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The stored form has every field, so a schedule has the same meaning after it was stored and read.
func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	t.Parallel()
	full := contract.FillSchedule(fullSchedule())
	byBody := contract.FillSchedule(duly.Schedule{
		Name: "n", Spec: "@daily", Overlap: duly.OverlapAllow, Template: duly.Job{Merge: duly.Merge{Mode: duly.MergeKeep}},
	})
	for _, want := range []duly.Schedule{full, byBody, contract.FillSchedule(duly.Schedule{Name: "n", Spec: "@daily"})} {
		got, err := Decode(want.Name, Encode(&want))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if TimingHash(&got) != TimingHash(&want) || ContentHash(&got) != ContentHash(&want) {
			t.Errorf("%+v has another hash", got)
		}
	}
}

// Stored schedules outlive a version of the program.
func TestEncodedFormStaysTheSame(t *testing.T) {
	t.Parallel()
	s := fullSchedule()
	const want = `{"spec":"0 3 * * *","zone":"Europe/Berlin","start":1000,"end":4000000000000,"jitter":60000000000,` +
		`"catchup":"all","window":3600000000000,"overlap":"allow","owner":"app","template":{"body":"Ym9keQ==",` +
		`"headers":{"a":"1\u003c","b":"2"},"priority":1,"tries":2,"max_stalls":-1,"backoff":"fixed:5s",` +
		`"ttl":3600000000000,"lease":60000000000,"order_key":"o","merge":{"key":"m","mode":"replace",` +
		`"max_wait":1000000000,"until":"done"},"callback":"https://example.com","on_done":"none",` +
		`"on_dead":"target:x","retain":3600000000000}}`
	if got := string(Encode(&s)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(Encode(&duly.Schedule{Name: "n", Spec: "@daily"})); got != `{"spec":"@daily","template":{}}` {
		t.Errorf("a short schedule is %s", got)
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	t.Parallel()
	s := fullSchedule()
	text := string(Encode(&s))
	for _, bad := range []string{"", "{}", text[:len(text)-1], strings.Replace(text, `"spec"`, `"spex"`, 1),
		`{"spec":1}`} {
		if got, err := Decode("n", []byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
}
