package link

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPageNamesEveryOption checks that docs/redis.md names exactly the options and schemes that
// exist, and says how to choose the number of shards (C11.3, C11.20).
func TestPageNamesEveryOption(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, options, ok1 := strings.Cut(page, "| option | default | meaning |")
	options, _, ok2 := strings.Cut(options, "\n\n")
	if !ok1 || !ok2 {
		t.Fatal("the page has no table of options")
	}
	var named []string
	for _, row := range strings.Split(options, "\n") {
		if cells := strings.Split(row, "|"); len(cells) > 3 {
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
				named = append(named, m[1])
			}
		}
	}
	for _, option := range known {
		if !slices.Contains(named, option) {
			t.Errorf("the page does not name the option %s", option)
		}
	}
	for _, option := range named {
		if _, err := ParseURL("redis://h?"+option+"=x", "max_body", "max_queues", "shards"); err != nil &&
			strings.Contains(err.Error(), "unknown option") {
			t.Errorf("the page names the option %s, which does not exist", option)
		}
	}
	for _, scheme := range Schemes() {
		if !strings.Contains(page, "`"+scheme+"://") {
			t.Errorf("the page does not name the scheme %s://", scheme)
		}
	}
	if !regexp.MustCompile(`256 MB[^\n]*\n?[^\n]*Choose the number of shards`).MatchString(page) {
		t.Error("the page does not say how to choose the number of shards")
	}
}
