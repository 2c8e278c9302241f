package assets

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"testing/fstest"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	set, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	f, ok := set.File("vendor/uPlot.iife.min.js")
	if !ok || f.Type != "text/javascript; charset=utf-8" {
		t.Fatalf("uPlot is %v with the type %q", ok, f.Type)
	}
	r, err := gzip.NewReader(bytes.NewReader(f.Gzip))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, f.Raw) {
		t.Errorf("the gzip form has %d bytes, %v; want the %d of the file", len(text), err, len(f.Raw))
	}
	if _, ok := set.File("assets.go"); ok {
		t.Error("the source of the package is served")
	}
}

// A URL with the hash never expires in a cache, so every change must change the hash.
func TestHashCoversNamesAndContents(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	seen := map[string]int{}
	for i, files := range []fstest.MapFS{
		{"a.js": file("1"), "b.js": file("2")},
		{"a.js": file("2"), "b.js": file("1")},
		{"a.js": file("1"), "c.js": file("2")},
		{"a.js": file("1b.js 1 2")},
	} {
		set, err := load(files)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[set.Hash]; ok {
			t.Errorf("sets %d and %d have the hash %s", other, i, set.Hash)
		}
		seen[set.Hash] = i
	}

	if _, err := load(fstest.MapFS{"a.exe": file("")}); err == nil {
		t.Error("a file without a content type loads")
	}
}

// G1: all scripts together have at most 60 KB, all styles 12 KB, in gzip.
func TestWeight(t *testing.T) {
	t.Parallel()
	set, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	bytesOf := map[string]int{}
	for _, f := range set.files {
		bytesOf[f.Type] += len(f.Gzip)
	}
	if n := bytesOf[types[".js"]]; n > 60_000 {
		t.Errorf("the scripts have %d bytes", n)
	}
	if n := bytesOf[types[".css"]]; n > 12_000 {
		t.Errorf("the styles have %d bytes", n)
	}
}
