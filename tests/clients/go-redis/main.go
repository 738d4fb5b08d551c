// Common uses of go-redis with strings and keys, on the server at port EBBTIDE_PORT. Prints each test and `N passed, N failed`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx            = context.Background()
	address        = "127.0.0.1:" + os.Getenv("EBBTIDE_PORT")
	passed, failed int
)

func connect(protocol int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, ClientName: "tester"})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func get[T any](value T, err error) T {
	must(err)
	return value
}

func equal(have, want any) {
	if !reflect.DeepEqual(have, want) {
		panic(fmt.Sprintf("have %v (%T), want %v (%T)", have, have, want, want))
	}
}

func test(name string, body func()) {
	defer func() {
		if why := recover(); why != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", name, why)
			return
		}
		passed++
		fmt.Println("ok   " + name)
	}()
	body()
}

func suite(protocol int) {
	db := connect(protocol)
	defer db.Close()
	in := func(name string) string { return fmt.Sprintf("RESP%d: %s", protocol, name) }

	test(in("SET and GET with their options"), func() {
		must(db.FlushAll(ctx).Err())
		equal(get(db.Set(ctx, "k", "v", time.Minute).Result()), "OK")
		equal(get(db.Get(ctx, "k").Result()), "v")
		_, err := db.Get(ctx, "absent").Result()
		equal(err, redis.Nil)
		equal(get(db.SetNX(ctx, "k", "w", 0).Result()), false)
		equal(get(db.SetXX(ctx, "k", "w", redis.KeepTTL).Result()), true)
		if left := get(db.TTL(ctx, "k").Result()); left < 50*time.Second || left > time.Minute {
			panic(left)
		}
		equal(get(db.SetArgs(ctx, "k", "x", redis.SetArgs{Get: true, KeepTTL: true}).Result()), "w")
		equal(get(db.GetDel(ctx, "k").Result()), "x")
		equal(get(db.Exists(ctx, "k").Result()), int64(0))
		equal(get(db.ClientGetName(ctx).Result()), "tester")
	})
	test(in("values are bytes"), func() {
		value := []byte{0, 255, 13, 10, 36, 42, 128}
		must(db.Set(ctx, "bytes", value, 0).Err())
		equal(get(db.Get(ctx, "bytes").Bytes()), value)
		equal(get(db.StrLen(ctx, "bytes").Result()), int64(7))
	})
	test(in("counters, ranges, bits and sketches"), func() {
		equal(get(db.IncrBy(ctx, "n", 40).Result()), int64(40))
		equal(get(db.IncrByFloat(ctx, "n", 2.5).Result()), 42.5)
		equal(get(db.Append(ctx, "s", "hello").Result()), int64(5))
		equal(get(db.GetRange(ctx, "s", 1, -2).Result()), "ell")
		equal(get(db.SetBit(ctx, "b", 7, 1).Result()), int64(0))
		equal(get(db.BitCount(ctx, "b", nil).Result()), int64(1))
		equal(get(db.BitField(ctx, "f", "INCRBY", "u8", "0", "3", "GET", "u4", "0").Result()), []int64{3, 0})
		equal(get(db.PFAdd(ctx, "h", "a", "b").Result()), int64(1))
		equal(get(db.PFCount(ctx, "h").Result()), int64(2))
	})
	test(in("a pipeline of ten thousand, errors in their place"), func() {
		pipe := db.Pipeline()
		for i := 0; i < 10_000; i++ {
			pipe.Set(ctx, fmt.Sprint("p", i), i, 0)
		}
		equal(len(get(pipe.Exec(ctx))), 10_000)
		must(db.Set(ctx, "text", "no number", 0).Err())
		results, err := db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "text")
			pipe.Get(ctx, "p17")
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "not an integer") {
			panic(err)
		}
		equal(results[1].(*redis.StringCmd).Val(), "17")
	})
	test(in("transactions that watch"), func() {
		must(db.Set(ctx, "watched", 0, 0).Err())
		increment := func() error {
			for {
				err := db.Watch(ctx, func(tx *redis.Tx) error {
					n, err := tx.Get(ctx, "watched").Int()
					if err != nil {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						pipe.Set(ctx, "watched", n+1, 0)
						return nil
					})
					return err
				}, "watched")
				if !errors.Is(err, redis.TxFailedErr) {
					return err
				}
			}
		}
		var all sync.WaitGroup
		for i := 0; i < 8; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for j := 0; j < 25; j++ {
					if increment() != nil {
						return
					}
				}
			}()
		}
		all.Wait()
		equal(get(db.Get(ctx, "watched").Int()), 200)
	})
	test(in("an iterator meets every key"), func() {
		walk, seen := db.Scan(ctx, 0, "p*", 500).Iterator(), map[string]bool{}
		for walk.Next(ctx) {
			seen[walk.Val()] = true
		}
		must(walk.Err())
		equal(len(seen), 10_000)
	})
	test(in("publish and subscribe"), func() {
		listener := db.PSubscribe(ctx, "news.*")
		defer listener.Close()
		get(listener.Receive(ctx))
		equal(get(db.Publish(ctx, "news.go", "hello").Result()), int64(1))
		message := get(listener.ReceiveMessage(ctx))
		equal([]string{message.Channel, message.Pattern, message.Payload}, []string{"news.go", "news.*", "hello"})
		equal(get(db.PubSubNumPat(ctx).Result()), int64(1))
	})
	test(in("errors are values, and the connection goes on"), func() {
		err := db.Do(ctx, "NOSUCH", "x").Err()
		if err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command 'NOSUCH'") {
			panic(err)
		}
		err = db.Do(ctx, "GET").Err()
		if err == nil || !strings.Contains(err.Error(), "wrong number of arguments for 'get' command") {
			panic(err)
		}
		equal(get(db.Ping(ctx).Result()), "PONG")
	})
	test(in("the server describes itself"), func() {
		if info := get(db.Info(ctx, "server").Result()); !strings.Contains(info, "redis_version:7.") {
			panic(info)
		}
		commands := get(db.Command(ctx).Result())
		equal(commands["get"].ReadOnly, true)
		equal(get(db.ConfigGet(ctx, "maxmemory-policy").Result()), map[string]string{"maxmemory-policy": "noeviction"})
		if !strings.Contains(get(db.ClientList(ctx).Result()), "lib-name=go-redis") {
			panic("the library's name is not shown")
		}
	})
	test(in("commands that only this server has"), func() {
		must(db.MSet(ctx, "u:1:a", "x", "u:1:b", "x", "u:2:a", "x").Err())
		if ticket := get(db.Do(ctx, "DELPREFIX", "u:1:").Text()); !strings.HasPrefix(ticket, "purge-") {
			panic(ticket)
		}
		keys := get(db.Keys(ctx, "u:*").Result())
		sort.Strings(keys)
		equal(keys, []string{"u:2:a"})
		equal(get(db.Do(ctx, "COUNTRANGE", "u:", "u;").Int()), 1)
	})
}

func main() {
	for _, protocol := range []int{2, 3} {
		suite(protocol)
	}
	test("client-side caching: an invalidation reaches the connection that was named", func() {
		writer, listener, reader := connect(2), connect(2), connect(2)
		defer writer.Close()
		defer listener.Close()
		defer reader.Close()
		told := listener.Subscribe(ctx, "__redis__:invalidate")
		defer told.Close()
		get(told.Receive(ctx))
		// The id of the listening connection, which is the newest connection with a subscription.
		id := ""
		for _, line := range strings.Split(get(writer.ClientList(ctx).Result()), "\n") {
			if strings.Contains(line, "sub=1") {
				id = strings.TrimPrefix(strings.Fields(line)[0], "id=")
			}
		}
		one := reader.Conn()
		defer one.Close()
		tracking := redis.NewStatusCmd(ctx, "CLIENT", "TRACKING", "on", "REDIRECT", id)
		must(one.Process(ctx, tracking))
		equal(tracking.Val(), "OK")
		must(writer.Set(ctx, "cached", 1, 0).Err())
		equal(get(one.Get(ctx, "cached").Result()), "1")
		must(writer.Set(ctx, "cached", 2, 0).Err())
		message := get(told.ReceiveMessage(ctx))
		equal(message.PayloadSlice, []string{"cached"})
	})
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
