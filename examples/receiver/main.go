// Receiver is an example of a service that duly pushes jobs to. It verifies the
// signature of each request as Standard Webhooks specifies, and answers 204.
//
//	WEBHOOK_SECRET=whsec_… go run ./examples/receiver 127.0.0.1:8080
//
// receiver.mjs and receiver.py are the same service for Node and Python. All
// three need only the standard library of their language.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	maxBody     = 1 << 20
	readTimeout = 10 * time.Second
)

func main() {
	addr := "127.0.0.1:8080"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: receiver(os.Getenv("WEBHOOK_SECRET"), handle), ReadTimeout: readTimeout}
	log.Fatal(server.Serve(listener))
}

// handle is where your work goes. It may see one ID twice, for example after an
// answer that was lost, so it should do nothing the second time. An error makes
// duly try again later.
func handle(id string, body []byte) error {
	fmt.Printf("%s: %d bytes\n", id, len(body))
	return nil
}

func receiver(secret string, handle func(id string, body []byte) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The signature covers the bytes as they came, so read them before anything
		// parses them.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
			return
		} else if err != nil {
			return // the sender is gone
		}

		if err := verify(r.Header, body, secret, time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}

		if err := handle(r.Header.Get("webhook-id"), body); err != nil {
			http.Error(w, "try again", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
