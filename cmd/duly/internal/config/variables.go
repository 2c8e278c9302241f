package config

import (
	"regexp"
	"slices"
	"strings"
)

// commandVariables are the variables that are not settings of a server.
var commandVariables = []string{
	"DULY_URL", "DULY_ADMIN_URL", "DULY_TOKEN", "DULY_CA", "DULY_CLIENT_CERT", "DULY_CLIENT_KEY", "DULY_CONFIG",
	"DULY_LMSTFY_CONFIG",
}

// testVariables are read only by the tests of this repository.
var testVariables = []string{
	"DULY_LONG", "DULY_BACKLOG", "DULY_LEDGER", "DULY_SOAK", "DULY_REDIS_SERVER", "DULY_CLOCK", "DULY_PROCTEST_ROLE",
	"DULY_SCREENS",
}

// otherPrefixes begin the names of variables for other programs: for the commands that a
// worker runs, and for tests.
var otherPrefixes = []string{"DULY_JOB_", "DULY_MODEL_"}

// serviceLink matches the variables that Kubernetes sets for a service whose name is
// duly or begins with duly.
var serviceLink = regexp.MustCompile(
	`^DULY_(\w+_)?(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?=|PORT=\w+://)`)

// UnknownVariables returns an error for each variable that begins with DULY_ and that
// nothing reads. It skips empty variables, because they count as not set.
func UnknownVariables(environ []string) (unknown Errors) {
	// Sorted, so that the order of the environment does not change the output.
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || value == "" || isKnownVariable(name) || serviceLink.MatchString(entry) {
			continue
		}
		problem := "is not a variable of duly and has no effect; docs/configuration.md lists the settings"
		if suggestion := suggestVariable(name); suggestion != "" {
			problem = "is not a variable of duly and has no effect; did you mean " + suggestion + "?"
		}
		unknown.add(Origin{Source: name}, "", "%s", problem)
	}
	return unknown
}

func isKnownVariable(name string) bool {
	isSetting := func(s *Setting) bool { return s.Variable() == name }
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.ContainsFunc(Table, isSetting) || slices.Contains(commandVariables, name) ||
		slices.Contains(testVariables, name) || slices.ContainsFunc(otherPrefixes, hasPrefix)
}

// suggestVariable returns the variable that is nearest to a misspelled name, "" if none
// is near. The name may also be spelled like the flag.
func suggestVariable(name string) string {
	suffix := strings.TrimPrefix(name, prefix)

	// The prefix is right in every such name, so it must not widen the limit.
	suggestion := newSuggestion(suffix)
	for _, s := range Table {
		suggestion.add(s.Variable(), min(distance(suffix, s.Key), distance(suffix, s.Flag)))
	}
	for _, variable := range commandVariables {
		suggestion.add(variable, distance(suffix, strings.TrimPrefix(variable, prefix)))
	}
	return suggestion.best
}
