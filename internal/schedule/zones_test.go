package schedule

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// C17.38: every package that fires ticks links the time zones, so its ticks do not depend on the
// host. The root package does not link them.
func TestPackagesThatFireTicksHaveTheZones(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"": false, "/sqliteengine": true, "/redisengine": true, "/internal/model": true, "/cmd/duly": true,
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/dulymq/duly"+path).Output()
		if err != nil {
			t.Fatalf("go list %q: %v", path, err)
		}
		if got := slices.Contains(strings.Fields(string(out)), "time/tzdata"); got != want {
			t.Errorf("duly%s links time/tzdata: %t, want %t", path, got, want)
		}
	}
}
