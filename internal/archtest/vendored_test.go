package archtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// vendored are the folders with files of other projects.
var vendored = []string{"server/dashboard/assets/vendor", "test/browser/testdata"}

// Every file of another project equals its SHA-256 in VENDOR.md, and no file lacks one.
func TestVendoredFilesEqualTheirChecksums(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range vendored {
		faults, err := vendorFaults(os.DirFS(filepath.Join(root, filepath.FromSlash(folder))))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			t.Errorf("%s: %s", folder, f)
		}
	}
}

// checksumLine is a row of the table of files: file, package, path, SHA-256.
var checksumLine = regexp.MustCompile(`(?m)^\| ([^ |]+) \| [^|]+ \| [^|]+ \| ([0-9a-f]{64}) \|$`)

// vendorFaults compares the files of a folder with the table in its VENDOR.md.
func vendorFaults(folder fs.FS) (faults []string, err error) {
	page, err := fs.ReadFile(folder, "VENDOR.md")
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, m := range checksumLine.FindAllStringSubmatch(string(page), -1) {
		sums[m[1]] = m[2]
	}

	err = fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "VENDOR.md" {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		listed, ok := sums[name]
		delete(sums, name)

		switch sum := sha256.Sum256(text); {
		case !ok:
			faults = append(faults, name+" has no line in VENDOR.md")
		case hex.EncodeToString(sum[:]) != listed:
			faults = append(faults, fmt.Sprintf("%s has the SHA-256 %x, VENDOR.md has %s", name, sum, listed))
		}
		return nil
	})
	for name := range sums {
		faults = append(faults, "VENDOR.md has a line for "+name+", which does not exist")
	}
	return faults, err
}

// Every module of the browser tests and every package with vendored files is named in docs/dependencies.md.
func TestEveryVendoredPackageIsJustified(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/dependencies.md")
	names := requirement.FindAllStringSubmatch(read(t, "test/browser/go.mod"), -1)
	for _, folder := range vendored {
		names = append(names, packageLine.FindAllStringSubmatch(read(t, folder+"/VENDOR.md"), -1)...)
	}
	if len(names) < 6 {
		t.Fatalf("found %d modules and packages: %q", len(names), names)
	}
	for _, m := range names {
		if m[1] != module && !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("docs/dependencies.md does not name %s", m[1])
		}
	}
}

var (
	// requirement is a line of a go.mod: module, version.
	requirement = regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v\S+`)
	// packageLine is a row of the table of packages: package, version, licence, integrity.
	packageLine = regexp.MustCompile(`(?m)^\| ([^ |]+) \| [^|]+ \| [^|]+ \| sha512-`)
)

func TestVendorFaultsFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	// The SHA-256 of "a".
	const sum = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	page := &fstest.MapFile{Data: []byte("| a.js | a | dist/a.js | " + sum + " |\n")}
	a, b := &fstest.MapFile{Data: []byte("a")}, &fstest.MapFile{Data: []byte("b")}

	tests := []struct {
		name   string
		files  fstest.MapFS
		faults int
	}{
		{"Equal", fstest.MapFS{"VENDOR.md": page, "a.js": a}, 0},
		{"Changed", fstest.MapFS{"VENDOR.md": page, "a.js": b}, 1},
		{"Extra", fstest.MapFS{"VENDOR.md": page, "a.js": a, "sub/b.js": b}, 1},
		{"Missing", fstest.MapFS{"VENDOR.md": page}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			faults, err := vendorFaults(tt.files)
			if err != nil || len(faults) != tt.faults {
				t.Errorf("faults are %q, %v, want %d", faults, err, tt.faults)
			}
		})
	}
}
