package config

import "strings"

// unknownKey returns the problem text for a key that is not a setting, with a suggestion.
func unknownKey(key string) string {
	if suggestion := suggestKey(key); suggestion != "" {
		return "is not a setting; did you mean " + suggestion + "?"
	}
	return "is not a setting; docs/configuration.md lists all settings"
}

// suggestKey returns the setting that is nearest to a misspelled key, or "" if none is near.
func suggestKey(key string) string {
	_, last := cutLast(key)
	s := newSuggestion(key)
	for _, setting := range Table {
		d := distance(key, setting.Key)
		if _, name := cutLast(setting.Key); name == last && name != setting.Key { // in another table
			// A right name in the wrong table is nearly right, however long the table's name is.
			d = min(d, 1)
		}
		s.add(setting.Key, d)
	}
	return s.best
}

// Suggestion finds the name that is nearest to a misspelled name.
type Suggestion struct {
	name  string
	best  string // "" if no name is near
	limit int    // a name is near if its distance is less than this
}

// Suggest returns a Suggestion without candidates. It accepts one wrong letter in a
// short name, else two, or a quarter of the letters.
func Suggest(name string) *Suggestion {
	const short = 3
	s := newSuggestion(name)
	if len(name) <= short {
		s.limit = 2
	}
	return s
}

// newSuggestion returns a Suggestion that accepts two wrong letters also in a short name.
func newSuggestion(name string) *Suggestion {
	return &Suggestion{name: name, limit: 1 + max(2, len(name)/4)}
}

// Add adds an existing name as a candidate.
func (s *Suggestion) Add(name string) { s.add(name, distance(s.name, name)) }

func (s *Suggestion) add(name string, distance int) {
	// Only a nearer name replaces the candidate, so the first of several equal ones stays.
	if distance < s.limit {
		s.best, s.limit = name, distance
	}
}

// Best returns the nearest candidate, or "" if none is near.
func (s *Suggestion) Best() string { return s.best }

// cutLast splits a key before its last name.
func cutLast(key string) (table, name string) {
	at := strings.LastIndexByte(key, '.')

	// Without a dot LastIndexByte returns -1, and the whole key is the name.
	return key[:max(at, 0)], key[at+1:]
}

// distance returns the number of letters to insert, delete or change to turn one text
// into the other (the Levenshtein distance). It ignores case and treats "_", "-" and "."
// as equal.
func distance(a, b string) int {
	normalize := strings.NewReplacer("-", "_", ".", "_")
	a, b = normalize.Replace(strings.ToLower(a)), normalize.Replace(strings.ToLower(b))

	// One row of the matrix is enough, because each row depends only on the one before.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
