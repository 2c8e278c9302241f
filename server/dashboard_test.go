package server

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/server/metrics"
)

// served returns the names of all series of a busy server, each with its labels.
func served(t *testing.T) map[string]map[string]bool {
	counts := metrics.New(metrics.Config{})
	f := serve(t, func(c *Config) { c.Metrics = counts })
	f.busy()
	counts.Called("sqlite", "commit", time.Millisecond)
	_, values := f.scrape()
	names := map[string]map[string]bool{}
	for series := range values {
		name, labels, _ := strings.Cut(series, "{")
		if names[name] == nil {
			names[name] = map[string]bool{"instance": true, "job": true} // Prometheus adds these labels
		}
		for _, m := range labelName.FindAllStringSubmatch(labels, -1) {
			names[name][m[1]] = true
		}
	}
	return names
}

var (
	labelName = regexp.MustCompile(`([a-zA-Z_]+)(?:=|!=|=~|!~)"`)
	inQuotes  = regexp.MustCompile(`"[^"]*"`)
	aMetric   = regexp.MustCompile(`\b((?:duly|go|process)_[a-z_]+)(\{[^}]*\})?`)
	grouped   = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// checkQuery returns the series and labels of a query that do not exist in the metrics.
func checkQuery(names map[string]map[string]bool, query string) (faults []string) {
	known := map[string]bool{}
	found := false

	for _, m := range aMetric.FindAllStringSubmatch(query, -1) {
		labels, ok := names[m[1]]
		if !ok {
			faults = append(faults, "there is no "+m[1])
			continue
		}
		found = true
		for l := range labels {
			known[l] = true
		}
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if !labels[l[1]] {
				faults = append(faults, m[1]+" has no label "+l[1])
			}
		}
	}

	for _, m := range grouped.FindAllStringSubmatch(inQuotes.ReplaceAllString(query, ""), -1) {
		for _, l := range strings.Split(m[1], ",") {
			if l = strings.TrimSpace(l); found && !known[l] {
				faults = append(faults, "nothing has a label "+l)
			}
		}
	}

	if !found && len(faults) == 0 {
		faults = append(faults, "it asks for nothing of ours")
	}
	return faults
}

// The series and labels of all queries of the dashboard exist.
func TestQueriesOfDashboardUseExistingSeries(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/grafana/duly.json")
	if err != nil {
		t.Fatal(err)
	}

	var dashboard struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}

	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	names, queries := served(t), 0

	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries++
			for _, fault := range checkQuery(names, target.Expr) {
				t.Errorf("panel %s: %s in %s", p.Title, fault, target.Expr)
			}
		}
	}

	for _, v := range dashboard.Templating.List {
		if v.Definition != "" {
			queries++
			for _, fault := range checkQuery(names, v.Definition) {
				t.Errorf("variable %s: %s", v.Name, fault)
			}
		}
	}

	if queries < 30 {
		t.Errorf("only %d queries were found", queries)
	}
}

// The series and labels of all alerts of docs/metrics.md exist.
func TestQueriesOfAlertsUseExistingSeries(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := served(t)
	alerts := regexp.MustCompile(`(?m)^        expr: (.*)$`).FindAllStringSubmatch(string(page), -1)

	for _, alert := range alerts {
		if strings.HasPrefix(alert[1], "up{") {
			continue // a label of Prometheus itself
		}
		for _, fault := range checkQuery(names, alert[1]) {
			t.Errorf("%s: %s", alert[1], fault)
		}
	}

	if len(alerts) < 8 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
}

func TestCheckQueryFindsMissingSeries(t *testing.T) {
	t.Parallel()
	names := served(t)
	for _, query := range []string{
		"duly_queue_job", "sum(rate(duly_queue_pushd_total[1m]))", `duly_queue_jobs{quue="x"}`,
		"sum by (code) (duly_queue_jobs)", "up", `sum by (le) (duly_delivery_lateness_seconds)`,
	} {
		if checkQuery(names, query) == nil {
			t.Errorf("%s passes", query)
		}
	}
}
