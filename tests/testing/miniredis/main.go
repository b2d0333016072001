// The server miniredis on a free loopback port, whose address is its first line of output.
// It ends when its standard input does.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const tick = 10 * time.Millisecond

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		panic(err)
	}
	fmt.Println(server.Addr())
	// Its keys expire when it is told that time has passed.
	go func() {
		last := time.Now()
		for {
			time.Sleep(tick)
			now := time.Now()
			server.FastForward(now.Sub(last))
			last = now
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
