package cli

import (
	"strings"
	"testing"
)

// C15.44: health needs no token. It fails if there is no server, or if the URL is not one.
func TestHealthNeedsNoToken(t *testing.T) {
	t.Parallel()
	r := remoteRig(t)
	left, err := readEndpoint(r.vars["DULY_DATA"])
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		args []string
		code int
		out  string
		errs string
	}{
		{nil, exitOK, "ok\n", ""},
		{[]string{"--json"}, exitOK, "{\"status\":\"ok\"}\n", ""},
		{[]string{"--url", left.url}, exitOK, "ok\n", ""},
		{[]string{"--url", "http://127.0.0.1:1"}, exitFailed, "", "was not reached"},
		{[]string{"--url", "sqlite:x.db"}, exitUsage, "", "sqlite:x.db is not a server"},
	} {
		code, out, errs := r.runRemote(append([]string{"health"}, tt.args...)...)
		if code != tt.code || out != tt.out || !strings.Contains(errs, tt.errs) || strings.Count(errs, "\n") > 1 {
			t.Errorf("%v: exit %d, %q, %q, want %+v", tt.args, code, out, errs, tt)
		}
	}
}
