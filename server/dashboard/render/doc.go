// Package render executes the HTML templates of the dashboard.
//
// The templates have the syntax of html/template. That package finds methods by their names, so the linker would keep
// every exported method of the binary, which grows by half. This package parses with text/template/parse, reads fields
// of structs and calls the functions that it was given, and never a method.
//
// # Escaping
//
// Every value is escaped for HTML. That is enough, because [Parse] refuses a template in which it would not be: a value
// may occur only in text and in quoted attributes. An attribute with a URL accepts only values of the type [Path]. The
// functions that build a Path escape the input of users.
//
// # Hygiene
//
// Parse also refuses what the Content-Security-Policy forbids: inline scripts and styles, and attributes with code.
// So a template that parses needs no test for these rules.
package render
