package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// C15.7: serve reads its settings from a file. C15.30: config check and config show
// read the same settings.
func TestServeReadsConfigFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "duly.toml")
	text := "data = '" + data + "'\nengine = 'model:'\naddr = '127.0.0.1:0'\nadmin_addr = '127.0.0.1:0'\n\n" +
		"[log]\nformat = 'json'\nlevel = 'debug'\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	delete(r.vars, "DULY_DATA")
	r.vars["DULY_CONFIG"] = file
	if out := r.ok("config", "check"); out != "no errors; 6 settings set, the others have their defaults\n" {
		t.Errorf("check: %q", out)
	}
	out := r.ok("config", "show", "--drain", "5s")
	for _, line := range []string{`(?m)^engine +model: +` + regexp.QuoteMeta(file) + `:2$`, `(?m)^drain +5s +--drain$`} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("show has no line %s:\n%s", line, out)
		}
	}

	stdout, errs, stop := r.start(1, "serve", "--json")
	var printed servingView
	if err := json.Unmarshal([]byte(stdout.String()), &printed); err != nil {
		t.Fatal(err)
	}
	stored, err := readEndpoint(data)
	if err != nil || stored.url != printed.URL || printed.Data != data || printed.Engine != "model:" {
		t.Errorf("stored %+v, %v; printed %+v", stored, err, printed)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit %d, %s", code, errs.String())
	}
	for line := range strings.Lines(errs.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log is not JSON: %s", line)
		}
	}
}

// C15.30: config check lists all errors and fails. serve names them in its one line.
func TestConfigCheckListsAllErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "duly.toml")
	if err := os.WriteFile(file, []byte("adr = 1\n[log]\nlevel = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := `adr is not a setting; did you mean addr?`, `log.level is 3, must be debug, info, warn or error`
	code, out, errs := r.run("config", "check", "--config", file)
	if want := file + ":1: " + first + "\n" + file + ":3: " + second + "\n"; code != exitUsage || out != want {
		t.Errorf("exit %d, %q, want %q", code, out, want)
	}
	const wantErr = "duly: invalid: the configuration has 2 errors; duly serve would not start; " +
		"see the settings in docs/configuration.md\n"
	if errs != wantErr {
		t.Errorf("%q, want %q", errs, wantErr)
	}
	_, out, _ = r.run("config", "check", "--config", file, "--json")
	var got configErrorView
	line, _, _ := strings.Cut(out, "\n")
	want := configErrorView{file, 1, "adr", "is not a setting; did you mean addr?"}
	if err := json.Unmarshal([]byte(line), &got); err != nil || got != want {
		t.Errorf("%s: %+v, %v", out, got, err)
	}

	for _, args := range [][]string{{"serve"}, {"config", "show"}} {
		code, out, errs = r.run(append(args, "--config", file)...)
		if code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, first) ||
			!strings.Contains(errs, second) {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

// --version is the same as version.
func TestVersionFlagIsTheVersionCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if flag, command := r.ok("--version"), r.ok("version"); flag != command {
		t.Errorf("%q, %q", flag, command)
	}
	if flag, command := r.ok("--version", "--json"), r.ok("version", "--json"); flag != command {
		t.Errorf("%q, %q", flag, command)
	}
	if code, _, errs := r.run("--version", "pusch"); code != exitUsage || !strings.Contains(errs, "push") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// C15.8: serve accepts a configuration file of lmstfy, and logs the keys that have no effect.
func TestServeReadsLmstfyFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "config.toml")
	text := "Host = '127.0.0.1'\nPort = 1\nAdminPort = 2\nLogFormat = 'json'\nLogDir = '/var/log'\n" +
		"[AdminRedis]\nAddr = '127.0.0.1:3'\n[Accounts]\nada = 'first-password'\n" +
		"[Pool.default]\nAddr = '127.0.0.1:3'\nPassword = 's3cr3t-of-mine'\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	show := r.ok("config", "show", "--lmstfy-config", file)
	if !regexp.MustCompile(`(?m)^addr +127\.0\.0\.1:1 +`).MatchString(show) ||
		!strings.Contains(show, "redis://***@127.0.0.1:3/0") || strings.Contains(show, "s3cr3t") {
		t.Errorf("show:\n%s", show)
	}
	check := r.ok("config", "check", "--lmstfy-config", file)
	if !strings.HasPrefix(check, file+":5: LogDir is not used: ") ||
		!strings.Contains(check, "\n"+file+":7: AdminRedis is not used: ") {
		t.Errorf("check:\n%s", check)
	}
	data := filepath.Join(t.TempDir(), "data")
	// Its flags override the file.
	_, errs, stop := r.serve(1, "--lmstfy-config", file, "--data", data, "--json")
	left, err := readEndpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest("GET", left.adminURL+"/info", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("ada", "first-password")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("with the file's account: %s", resp.Status)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit %d, %s", code, errs)
	}

	for _, key := range []string{"LogDir", "AdminRedis"} {
		if log := errs.String(); strings.Count(log, `"key":"`+key+`"`) != 1 || !strings.Contains(log, `"reason":"`) {
			t.Errorf("the log of %s: %s", key, log)
		}
	}
}

// An unknown variable is an error for config check, and a warning for serve.
func TestUnknownVariableIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vars["DULY_ADRR"] = "127.0.0.1:1"
	file := filepath.Join(t.TempDir(), "duly.toml")
	if err := os.WriteFile(file, []byte("adr = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const problem = "is not a variable of duly and has no effect; did you mean DULY_ADDR?"
	code, out, errs := r.run("config", "check")
	if code != exitUsage || out != "DULY_ADRR "+problem+"\n" ||
		!strings.HasPrefix(errs, "duly: invalid: the environment has 1 unknown variable") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	code, out, errs = r.run("config", "check", "--config", file)
	if code != exitUsage || strings.Count(out, "\n") != 2 || !strings.HasSuffix(out, problem+"\n") ||
		!strings.Contains(errs, "has 2 errors") {
		t.Errorf("together with an error: exit %d, %q, %q", code, out, errs)
	}
	_, log, stop := r.serve(1, "--data", filepath.Join(t.TempDir(), "data"), "--json", "--log-format", "json")
	if code := stop(); code != exitOK || strings.Count(log.String(), `"variable":"DULY_ADRR"`) != 1 ||
		!strings.Contains(log.String(), problem) {
		t.Errorf("exit %d, %s", code, log)
	}
}
