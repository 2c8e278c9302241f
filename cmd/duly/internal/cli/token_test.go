package cli

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
)

// addTokens adds tokens with fixed IDs. Two of the IDs have a common beginning.
func (r *rig) addTokens() {
	r.t.Helper()
	for i, t := range []contract.Token{
		{Hash: [32]byte{0x4f, 0x0c, 0x1d, 0x2e, 0x3a, 0x5b, 1}, Namespace: "shop", Rights: contract.RightProduce,
			Description: "web shop"},
		{Hash: [32]byte{0x4f, 0x0c, 0x1d, 0x2e, 0x3a, 0x5b, 2}, Namespace: "shop",
			Rights: contract.RightProduce | contract.RightConsume, Limits: contract.Limits{Produce: 1000, Consume: 5, Per: time.Minute}},
		{Hash: [32]byte{0x70}, Namespace: "*", Rights: contract.RightAdmin, Description: "operators"},
	} {
		for b := 8; b < len(t.Hash); b++ {
			t.Hash[b] = 0xee
		}
		t.CreatedAt = r.clock.Now().Add(-time.Duration(i+1) * time.Hour)
		if err := r.engine.PutToken(r.t.Context(), t); err != nil {
			r.t.Fatal(err)
		}
	}
}

// C15.24, C15.38: token list, limit and revoke, and their errors.
func TestTokenCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("token", "list")
	r.addTokens()
	r.do("token", "list")
	r.do("token", "list", "-n", "shop", "--json")
	r.do("token", "limit", "4f0c1d2e3a5b")
	r.do("token", "limit", "4f0c1d2e3a5b01", "--limit-produce", "10")
	r.do("token", "limit", "4f0c1d2e3a5b01", "--limit-produce", "10", "--limit-per", "1ms")
	r.do("token", "limit", "4f0c1d2e3a5b01", "--limit-produce", "10", "--limit-per", "1h")
	r.do("token", "limit", "4F0C1D2E3A5B02", "--none", "--json")
	r.do("token", "limit", "4f0c1d2e3a5b02", "--none", "--limit-produce", "10")
	r.do("token", "list", "-n", "shop")
	r.do("token", "revoke")
	r.do("token", "revoke", "4f0c1d2e3a5b")
	r.do("token", "revoke", "4f0c")
	r.do("token", "revoke", "web shop")
	r.do("token", "revoke", "ffffffff", "4f0c1d2e3a5b01")
	r.do("token", "revoke", "70000000")
	r.do("token", "revoke", "4f0c1d2e", "--json")
	r.do("token", "list", "-n", "*")
	r.do("token", "create", "--rights", "produce", "--limit-produce", "3")
	r.golden("token")
}

// revoke accepts a secret instead of an ID, and never prints it.
func TestTokenRevokeBySecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secrets := make([]string, 3)

	for i := range secrets {
		var made struct{ ID, Token string }
		out := r.ok("token", "create", "--rights", "produce", "--json", "--limit-produce", "7", "--limit-per", "1m")
		if err := json.Unmarshal([]byte(out), &made); err != nil ||
			!strings.Contains(out, `"limits":{"produce":7,"per":"1m"}`) {
			t.Fatalf("%s: %v", out, err)
		}
		if hash, ok := auth.Hash(made.Token); !ok || wire.TokenID(hash) != made.ID {
			t.Errorf("the token %s has the ID %s", made.Token, made.ID)
		}
		secrets[i] = made.Token
	}

	code, out, errs := r.run("token", "revoke", secrets[0])
	all := out + errs
	if code != exitOK {
		t.Errorf("exit %d, %s", code, errs)
	}
	r.stdin = secrets[1] + "\n\n" + secrets[2] + "\n" + secrets[2][:20] + "\n"
	code, out, errs = r.run("token", "revoke", "-")
	all += out + errs
	if code != exitUsage && code != exitFailed || strings.Count(out, "revoked token ") != 2 {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}

	for _, s := range secrets {
		if strings.Contains(all, s[:20]) {
			t.Errorf("a secret was printed: %s", all)
		}
	}

	if out := r.ok("token", "list"); out != "" {
		t.Errorf("there are still tokens: %s", out)
	}
}

// C15.24: a running server refuses a token after it was revoked.
func TestTokenRevokeOnServer(t *testing.T) {
	t.Parallel()
	r := remoteRig(t)
	ok := r.okRemote
	secret := strings.TrimSpace(ok("token", "create", "-n", "shop", "--rights", "produce"))
	left, err := readEndpoint(r.vars["DULY_DATA"])
	if err != nil {
		t.Fatal(err)
	}
	shop := strings.Replace(left.url, "://", "://"+secret+"@", 1) + "/shop"
	ok("push", "q", "x", "--url", shop)
	id := regexp.MustCompile(`(?m)^([0-9a-f]{12})  shop `).FindStringSubmatch(ok("token", "list"))
	if id == nil {
		t.Fatalf("the token is not in the list: %s", ok("token", "list"))
	}
	ok("token", "limit", id[1], "--limit-produce", "1", "--limit-per", "366d")
	ok("push", "q", "x", "--url", shop)
	if code, _, errs := r.runRemote("push", "q", "x", "--url", shop); code != exitFailed ||
		!strings.HasPrefix(errs, "duly: limited: ") {
		t.Errorf("a call too many: exit %d, %s", code, errs)
	}
	ok("token", "revoke", id[1])
	if code, _, errs := r.runRemote("push", "q", "x", "--url", shop); code != exitFailed ||
		!strings.HasPrefix(errs, "duly: unauthorized: ") {
		t.Errorf("a revoked token: exit %d, %s", code, errs)
	}
	first, _ := auth.Hash(left.token)
	code, _, errs := r.runRemote("token", "revoke", wire.TokenID(first))
	if code != exitFailed || !strings.HasPrefix(errs, "duly: conflict: ") ||
		!strings.Contains(errs, "token create --namespace '*' --rights admin") {
		t.Errorf("the last operator: exit %d, %s", code, errs)
	}
	if code, _, errs := r.runRemote("token", "revoke", "00000000"); code != exitFailed ||
		!strings.Contains(errs, "duly token list") {
		t.Errorf("nobody's token: exit %d, %s", code, errs)
	}
}

// C15.39: serve reads accounts from a file that only its owner can read.
func TestServeReadsAccounts(t *testing.T) {
	t.Parallel()
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "accounts")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := newRig(t)
	data := t.TempDir()
	out, errs, stop := r.serve(1, "--engine", "model:", "--admin-addr", "127.0.0.1:0", "--data", data, "--json",
		"--log-level", "debug", "--log-format", "json",
		"--admin-accounts", file("# who may\n\nada:correct: horse \r\nbob:battery staple\n", 0o600), "--trusted-proxy",
		"10.0.0.0/8,::1")
	left, err := readEndpoint(data)
	if err != nil {
		t.Fatal(err)
	}

	for credentials, want := range map[string]int{
		"ada:correct: horse ": 200, "bob:battery staple": 200,
		"ada:battery staple": 401, "# who may": 401,
	} {
		req, _ := http.NewRequest("GET", left.adminURL+"/admin/tokens", nil)
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(credentials)))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", credentials, resp.StatusCode, want)
		}
	}

	if code := stop(); code != exitOK {
		t.Errorf("exit %d, %s", code, errs)
	}
	if text := errs.String() + out.String(); strings.Contains(text, "horse") || strings.Contains(text, "staple") ||
		!strings.Contains(text, "account ada") {
		t.Errorf("the log has a password, or no name of the account: %s", text)
	}
	refused := map[string]string{
		"--admin-accounts=" + file("ada", 0o600):                  "line 1 is not of the form NAME:PASSWORD",
		"--admin-accounts=" + file("", 0o600):                     "no account",
		"--admin-accounts=" + file("ada:s3cret", 0o600):           "at least 8",
		"--admin-accounts=" + file("# x\na b:long enough", 0o600): "line 2: name",
		"--admin-accounts=" + filepath.Join(t.TempDir(), "none"):  "no such file or directory",
		"--trusted-proxy=proxy.example":                           "10.0.0.0/24",
	}
	if runtime.GOOS != "windows" {
		refused["--admin-accounts="+file("ada:correct horse", 0o644)] = "can be read by others"
	}

	for flag, want := range refused {
		code, out, errs := r.run("serve", "--engine", "model:", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
			"--data", t.TempDir(), flag)
		if code == exitOK || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 || out != "" ||
			strings.Contains(errs, "s3cret") {
			t.Errorf("%s: exit %d, %q, want %q", flag, code, errs, want)
		}
	}
}
