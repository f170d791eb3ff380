// Follow the ACLs of the Klamm beside this process: watch URL prints every change, with the standard library alone.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	silence      = 15 * time.Second // three bookmarks that don't come
	longestPause = 5 * time.Second
)

// errRefused is a reply that asking again would not change.
var errRefused = errors.New("refused")

type event struct {
	Type    string            `json:"type"`
	Token   string            `json:"token"`
	ACLs    []json.RawMessage `json:"acls"`
	Configs map[string]string `json:"configs"`
	Records []json.RawMessage `json:"records"`
}

type record struct {
	Kind  string          `json:"kind"`
	ACL   json.RawMessage `json:"acl"`
	Name  string          `json:"name"`
	Value *string         `json:"value"`
}

// Follower holds ACLs by id and properties as of token: always one state, never half a transaction.
type Follower struct {
	ACLs    map[string]json.RawMessage
	Configs map[string]string

	url, token string
	newACLs    map[string]json.RawMessage
	newConfigs map[string]string
}

// Follow hands over each record once it is applied, and returns only if this caller may not watch.
func (f *Follower) Follow(take func(json.RawMessage)) error {
	pause := 100 * time.Millisecond
	for {
		began := time.Now()
		err := f.stream(take)
		if errors.Is(err, errRefused) {
			return err
		}
		if err != nil { // it is not there yet, it restarts, or the connection was cut
			fmt.Fprintln(os.Stderr, err, "- trying again")
		}
		if time.Since(began) > longestPause {
			pause = 100 * time.Millisecond
		}
		time.Sleep(pause/2 + rand.N(pause/2))
		pause = min(2*pause, longestPause)
	}
}

func (f *Follower) stream(take func(json.RawMessage)) error {
	query := url.Values{"snapshot": {"true"}}
	if f.token != "" {
		query = url.Values{"after": {f.token}}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	alarm := time.AfterFunc(silence, func() { cancel(errors.New("the stream has said nothing for 15 s")) })
	defer alarm.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/v1/watch?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	request.Header.Set("Klamm-Epochs", "1") // stream and token go on from one epoch of the store to the next
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return f.refusal(reply)
	}
	lines := bufio.NewReader(reply.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // what has no end of line was cut
			return nil
		}
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		alarm.Reset(silence)
		if err := f.take(line, take); err != nil {
			return err
		}
	}
}

func (f *Follower) refusal(reply *http.Response) error {
	switch reply.StatusCode {
	case http.StatusConflict, http.StatusGone: // the position is lost; or what follows the token is not kept any more
		f.token = ""
		return nil
	case 429, 500, 502, 503, 504:
		return errors.New(reply.Status)
	}
	told, _ := io.ReadAll(io.LimitReader(reply.Body, 1<<16))
	return fmt.Errorf("%w: %s: %s", errRefused, reply.Status, told)
}

func (f *Follower) take(line []byte, hand func(json.RawMessage)) error {
	var e event
	if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
		return err
	}
	switch e.Type {
	case "snapshot":
		f.newACLs, f.newConfigs = map[string]json.RawMessage{}, map[string]string{}
	case "acls":
		for _, acl := range e.ACLs {
			f.newACLs[idOf(acl)] = acl
		}
	case "configs":
		f.newConfigs = e.Configs
	case "synced": // until here it may have been cut; now it is whole
		f.ACLs, f.Configs, f.token = f.newACLs, f.newConfigs, e.Token
	case "transaction":
		for _, each := range e.Records {
			if err := f.apply(each); err != nil {
				return err
			}
		}
		f.token = e.Token
		for _, each := range e.Records {
			hand(each)
		}
	case "bookmark":
		f.token = e.Token
	} // "end", and types of later versions: nothing to do
	return nil
}

func (f *Follower) apply(raw json.RawMessage) error {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	switch {
	case r.Kind == "AccessControlEntryRecord": // a new ACL, or one with another end or owner
		f.ACLs[idOf(r.ACL)] = r.ACL
	case r.Kind == "RemoveAccessControlEntryRecord":
		delete(f.ACLs, idOf(r.ACL))
	case r.Kind == "ConfigRecord" && r.Value == nil:
		delete(f.Configs, r.Name)
	case r.Kind == "ConfigRecord":
		f.Configs[r.Name] = *r.Value
	}
	return nil
}

func idOf(acl json.RawMessage) string {
	var named struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(acl, &named)
	return named.ID
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: watch URL")
		os.Exit(2)
	}
	follower := &Follower{url: os.Args[1]}
	err := follower.Follow(func(change json.RawMessage) { fmt.Println(string(change)) })
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
