// Command prose measures how readable the tree is: its words, its sentences and the
// shape of its functions. It prints a table of figures with their bounds, and exits
// with 1 if a figure is out of bounds.
//
//	go run ./internal/archtest/prose         # the table
//	go run ./internal/archtest/prose -list   # and each place that counts
//	go run ./internal/archtest/prose -sample 7   # 100 comments, 40 errors and 40 names of tests
//
// Readers who have only the file judge a sample. They should understand 95 % at first reading.
//
// The figures:
//
//   - words: forbidden words per 1,000 lines of comments and docs. Texts in Go strings
//     count too, because users read them.
//   - sentences: words per sentence in docs, and the share of sentences over 30 words.
//     Tables, headings and code do not count.
//   - names: tests and error texts that begin with who or what.
//   - functions: the share of functions of 20 lines or more without a blank line, and
//     functions over 60 lines. Tests do not count.
//   - comments: the share of comment lines in function bodies. Tests do not count.
//   - columns: lines over 140 columns in Go, Lua, SQL and Markdown, without the rows of
//     Markdown tables.
package main
