//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// C15.40: the commands of docs/lmstfy.md work against the real binary with the flag
// that the page names. Only the ports differ.
func TestCommandsOfTheLmstfyPageWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("curl is not installed")
	}
	_, rest, _ := strings.Cut(readFile(t, "../../docs/lmstfy.md"), "```sh\n")
	lines, _, found := strings.Cut(rest, "```")
	if !found || strings.Count(lines, "curl") != 6 {
		t.Fatalf("the page has other lines:\n%s", lines)
	}

	h := newHome(t)
	const flag = "duly serve --lmstfy open"
	if !strings.Contains(readFile(t, "../../docs/lmstfy.md"), flag) {
		t.Fatalf("the page does not name %q", flag)
	}
	s := h.serve(strings.Fields(flag)[2:]...)

	lines = strings.ReplaceAll(lines, "http://127.0.0.1:7777", readFile(t, h.dir+"/duly-data/url"))
	lines = strings.ReplaceAll(lines, "http://127.0.0.1:7778", readFile(t, h.dir+"/duly-data/admin-url"))
	sh := h.command("sh", "-e", "-c", lines)
	var out, errs strings.Builder
	sh.Stdout, sh.Stderr = &out, &errs
	if err := sh.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}

	text := strings.ReplaceAll(out.String(), "\r", "")
	for _, want := range []string{
		"HTTP/1.1 201 Created\n", `","msg":"published"}`,
		`{"namespace":"test-ns","queue":"q1","size":0}`,
		"HTTP/1.1 204 No Content\n",
		"{\n    \"test-ns\": [\n        \"q1\"\n    ]\n}\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	code, stats, _ := h.duly("", "stats", "q1", "--namespace", "test-ns", "--json")
	if code != 0 || !strings.Contains(stats, `"delivered":1`) || !strings.Contains(stats, `"acked":1`) {
		t.Errorf("exit %d, %s", code, stats)
	}
	if code := s.end(t, os.Interrupt); code != 0 { // after the server has ended, the log is complete
		t.Errorf("exit %d", code)
	}
	if strings.Contains(s.errs.String(), "duly_") {
		t.Errorf("the log shows a token: %s", s.errs.String())
	}
}
