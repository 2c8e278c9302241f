package consumer

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C12.107: a process has one name, whatever its host is called, and every engine accepts the name.
func TestEveryEngineAcceptsTheNameOfAProcess(t *testing.T) {
	t.Parallel()
	if Name() != Name() {
		t.Error("the process has two names")
	}
	names := []string{Name()}
	for host, want := range map[string]string{
		"db-1.example": "db-1.example-7-00ff", "": "host-7-00ff",
		".local": "host.local-7-00ff", "büro pc": "b-ro-pc-7-00ff",
		strings.Repeat("x", 300): strings.Repeat("x", 63) + "-7-00ff",
	} {
		got := name(host, 7, []byte{0, 255})
		if got != want {
			t.Errorf("on the host %q: %s, want %s", host, got, want)
		}
		names = append(names, got)
	}
	for _, n := range names {
		p := duly.ReserveParams{Queues: []string{"t@g"}, Max: 1, Consumer: n}
		if err := contract.ValidateReserve(&p); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
}
