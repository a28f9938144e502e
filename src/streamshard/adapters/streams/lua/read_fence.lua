return {redis.call('EXISTS', key), redis.call('HGETALL', fence)}
