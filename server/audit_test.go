package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// C14.57: calls that need the right admin and may change something are in the audit log, with their caller and their
// end. Other calls are not. A call continues if a line cannot be written, and the line is counted.
func TestAdminCallsAreAudited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := serve(t, func(c *Config) { c.Listen.DataDir = dir })
	call := func(method, path, body string) int {
		return f.send(method, path, body).status
	}
	f.push("mail", "x")
	call("POST", "/v1/default/queues/mail/pause", "")
	call("GET", "/v1/default/queues", "")
	call("POST", "/v1/default/push", `{"jobs":[{"queue":"mail"}]}`)
	call("DELETE", "/admin/tokens/none", "")
	text, err := os.ReadFile(filepath.Join(dir, AuditFolder, "audit-00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 4 {
		t.Fatalf("the log has %d lines: %s", len(lines), text)
	}
	for i, parts := range [][]string{
		{`"phase":"intent"`, `"via":"api"`, `"route":"POST /v1/{namespace}/queues/{queue}/pause"`, `"queue":"mail"`,
			`"caller":"` + f.id("operator")[:8] + `"`},
		{`"phase":"outcome"`, `"result":"ok"`},
		{`"phase":"intent"`, `"via":"admin"`, `"route":"DELETE /admin/tokens/{id}"`},
		{`"phase":"outcome"`, `"result":"invalid"`},
	} {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d has no %s: %s", i, part, lines[i])
			}
		}
	}

	// A file in place of the folder fails every line.
	if err := os.RemoveAll(filepath.Join(dir, AuditFolder)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, AuditFolder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := call("POST", "/v1/default/queues/mail/resume", ""); status != http.StatusNoContent {
		t.Errorf("without the log a call has the status %d", status)
	}
	if _, values := f.scrape(); values["duly_audit_lost_total"] != "2" {
		t.Errorf("%s lines are counted as lost", values["duly_audit_lost_total"])
	}
}
