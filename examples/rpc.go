// A client of `anyshell rpc` for Go: go run rpc.go [COMMAND [ARGUMENT...]]
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

type message struct {
	ID          int
	Event, Data string
	Result      map[string]any
	Error       *struct{ Code, Message string }
}

type anyshell struct {
	stdin io.WriteCloser
	lines *bufio.Reader
	next  int
}

// call sends a request, prints the output of the request, and returns the answer: one request at a time.
func (a *anyshell) call(method string, params map[string]any) (told message) {
	a.next++
	line, _ := json.Marshal(map[string]any{"id": a.next, "method": method, "params": params})
	a.stdin.Write(append(line, '\n'))
	for {
		line, err := a.lines.ReadBytes('\n')
		told = message{}
		if err != nil || json.Unmarshal(line, &told) != nil {
			panic("the server has ended")
		}
		if told.Event == "" && told.ID == a.next {
			return told
		}
		fmt.Print(told.Data)
	}
}

func main() {
	command := os.Args[1:]
	if len(command) == 0 {
		command = []string{"anyshell", "rpc"}
	}
	server := exec.Command(command[0], command[1:]...)
	stdin, _ := server.StdinPipe()
	stdout, _ := server.StdoutPipe()
	server.Start()
	a := &anyshell{stdin: stdin, lines: bufio.NewReader(stdout)}
	fmt.Println(a.call("hello", map[string]any{"version": 1}).Result["host"])
	ended := a.call("stream", map[string]any{"command": "echo out; exit 3"}).Result
	fmt.Println(ended["status"], ended["exit_code"])
	fmt.Println(a.call("nonsense", nil).Error.Code)
	stdin.Close() // stops everything that the server started
	fmt.Println("ended with", server.Wait())
}
