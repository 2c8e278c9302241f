package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An error for an unknown variable suggests the nearest one. It does not contain the
// value, which may be a secret.
func TestUnknownVariableIsRefusedWithASuggestion(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"DULY_ADRR=127.0.0.1:1":    "DULY_ADRR is not a variable of duly and has no effect; did you mean DULY_ADDR?",
		"DULY_LOGLEVEL=debug":      "did you mean DULY_LOG_LEVEL?",
		"DULY_POOL=a=sqlite:x":     "did you mean DULY_POOLS?",
		"DULY_TRUSTED_PROXY=::1":   "did you mean DULY_TRUSTED_PROXIES?",
		"DULY_TOKN=duly_s3cret":    "did you mean DULY_TOKEN?",
		"DULY_SOMETHING_ELSE=1":    "docs/configuration.md lists the settings",
		"DULY_PORT=7777":           "has no effect",
		"DULY_ADDR=127.0.0.1:1":    "",
		"DULY_ADDRESS=":            "",
		"DULY_LOG_LEVEL=debug":     "",
		"DULY_TOKEN=duly_s3cret":   "",
		"DULY_JOB_ID=1":            "",
		"DULYADDR=1":               "",
		"PATH=/bin:DULY_ADRR=1":    "",
		"DULY_PORT=tcp://10.0.0.1": "",
	} {
		got := UnknownVariables([]string{"HOME=/", entry})
		if (len(got) > 0) != (want != "") ||
			!strings.Contains(got.Error(), want) || strings.Contains(got.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", entry, got, want)
		}
	}
}

// Kubernetes sets variables for a service named duly. These variables are not mistakes.
func TestUnknownVariablesSkipsKubernetesServices(t *testing.T) {
	t.Parallel()
	environ := strings.Fields(`DULY_SERVICE_HOST=10.0.0.1 DULY_SERVICE_PORT=7777 DULY_SERVICE_PORT_HTTP=7777
		DULY_PORT=tcp://10.0.0.1:7777 DULY_PORT_7777_TCP=tcp://10.0.0.1:7777 DULY_PORT_7777_TCP_PROTO=tcp
		DULY_PORT_7777_TCP_PORT=7777 DULY_PORT_7777_TCP_ADDR=10.0.0.1
		DULY_ADMIN_SERVICE_HOST=10.0.0.1 DULY_ADMIN_PORT=tcp://10.0.0.1:7778 DULY_ADMIN_PORT_7778_TCP_ADDR=10.0.0.1`)
	if got := UnknownVariables(environ); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// All variables that the source code reads are known.
func TestAllVariablesInTheSourceAreKnown(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`(?:Getenv|LookupEnv|getenv|setting|Setenv)\([^()\n]*"(DULY_[A-Z0-9_]+)"`)
	found := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".c" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "DULY_") {
				continue
			}
			for _, m := range variable.FindAllStringSubmatch(line, -1) {
				if found++; !isKnownVariable(m[1]) {
					t.Errorf("%s: %s is not known", path, m[1])
				}
			}
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d found, %v", found, err)
	}
}
