// mqtt.js, every version and QoS over TCP, TLS, a client's certificate, a pre-shared key, and WebSocket without and with TLS.
//
// usage: node mqttjs.js FOLDER PORTS   (run by mqttjs.sh; PORTS: tcp,tls,ws,wss; FOLDER has the certificates)
//
// Each row subscribes, publishes and waits for what it has published; "ok NAME" or "not ok NAME: why" is said of it, and
// the program ends with the number of rows that failed.
const fs = require('fs');
const mqtt = require('mqtt');

const [folder, ports] = process.argv.slice(2);
const [tcp, tls, ws, wss] = ports.split(',');
const COUNT = 20;
const WAIT_MS = 60000;
const ca = fs.readFileSync(folder + '/ca.crt');
const password = { username: 'acme/d1', password: 'pw-d1' };
const certificate = { cert: fs.readFileSync(folder + '/c1.crt'), key: fs.readFileSync(folder + '/c1.key') };
// What Node has for keys: no certificate is looked at, and none is shown.
const key = {
    pskCallback: () => ({ identity: 'acme/p1', psk: Buffer.from('00112233445566778899aabbccddeeff', 'hex') }),
    ciphers: 'PSK', maxVersion: 'TLSv1.2', checkServerIdentity: () => undefined,
};
const ways = [
    ['tcp', 'mqtt://localhost:' + tcp, 'd1', password],
    ['tls', 'mqtts://localhost:' + tls, 'd1', { ca, ...password }],
    ['cert', 'mqtts://localhost:' + tls, 'c1', { ca, ...certificate }],
    ['psk', 'mqtts://localhost:' + tls, 'p1', key],
    ['ws', 'ws://localhost:' + ws + '/mqtt', 'd1', password],
    ['wss', 'wss://localhost:' + wss + '/mqtt', 'd1', { ca, ...password }],
];
const versions = [
    ['3.1', { protocolId: 'MQIsdp', protocolVersion: 3 }],
    ['3.1.1', { protocolVersion: 4 }],
    ['5.0', { protocolVersion: 5 }],
];

function run(name, url, topic, qos, options) {
    return new Promise((resolve) => {
        const wanted = Array.from({ length: COUNT }, (_, i) => qos + ' m' + i).join('\n');
        const got = [];
        let acknowledged = 0;
        const client = mqtt.connect(url, { clientId: name, reconnectPeriod: 0, connectTimeout: WAIT_MS, ...options });
        const timer = setTimeout(() => end('received ' + got.length + ', acknowledged ' + acknowledged), WAIT_MS);
        function end(why) {
            clearTimeout(timer);
            client.removeAllListeners('close');
            client.end(why !== undefined, () => resolve(why));
        }
        function check() {
            if (got.length >= COUNT && acknowledged >= COUNT)
                end(got.join('\n') === wanted ? undefined : 'received ' + got.join(', '));
        }
        client.on('error', (e) => end(e.message));
        client.on('close', () => end('closed'));
        client.on('message', (_, payload, packet) => {
            got.push(packet.qos + ' ' + payload);
            check();
        });
        client.on('connect', () => client.subscribe(topic, { qos }, (error, granted) => {
            if (error || granted.length !== 1 || granted[0].qos !== qos)
                return end('SUBSCRIBE: ' + (error ? error.message : JSON.stringify(granted)));
            for (let i = 0; i < COUNT; i++)
                client.publish(topic, 'm' + i, { qos }, (e) => {
                    if (e)
                        return end('PUBLISH: ' + e.message);
                    acknowledged++;
                    check();
                });
        }));
    });
}

(async () => {
    let failed = 0;
    for (const [way, url, device, how] of ways)
        for (const [version, what] of versions)
            for (const qos of [0, 1, 2]) {
                const name = 'mqttjs-' + way + '-' + version + '-' + qos;
                const why = await run(name, url, 'acme/' + device + '/' + name, qos, { ...how, ...what });
                console.log(why === undefined ? 'ok ' + name : 'not ok ' + name + ': ' + why);
                failed += why === undefined ? 0 : 1;
            }
    process.exit(failed);
})();
