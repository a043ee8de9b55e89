/*
 * paho_client.c
 *		A small client on the Paho library for C, for the matrix of clients
 *		(test/t/301_client_matrix.pl).
 *
 * Usage: paho_client URI VERSION QOS CLIENT_ID TOPIC COUNT [option=value ...]
 *		VERSION is 3, 4 or 5; options: user, password, ca, cert, key, psk (hex),
 *		identity.
 *
 * It subscribes, publishes COUNT messages and waits for all of them; what came,
 * in order, goes to its output, a line each.  It ends with 0 when everything the
 * library said was good.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "MQTTClient.h"

#define WAIT_MS 150000

static const char *options[16];
static int option_count;

static const char *
option(const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; i < option_count; i++)
		if (strncmp(options[i], name, len) == 0 && options[i][len] == '=')
			return options[i] + len + 1;
	return NULL;
}

static int
fail(const char *what, int code)
{
	fprintf(stderr, "%s: %d\n", what, code);
	exit(1);
}

static unsigned int
give_key(const char *hint, char *identity, unsigned int identity_room, unsigned char *key, unsigned int key_room,
		 void *arg)
{
	const char *hex = option("psk");
	unsigned int len = (unsigned int) strlen(hex) / 2;

	(void) hint;
	(void) arg;
	if (len > key_room)
		return 0;
	snprintf(identity, identity_room, "%s", option("identity"));
	for (unsigned int i = 0; i < len; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &key[i]) != 1)
			return 0;
	return len;
}

static void
connect_client(MQTTClient client, int version)
{
	MQTTClient_connectOptions three = MQTTClient_connectOptions_initializer;
	MQTTClient_connectOptions five = MQTTClient_connectOptions_initializer5;
	MQTTClient_connectOptions *opts = version == 5 ? &five : &three;
	MQTTClient_SSLOptions ssl = MQTTClient_SSLOptions_initializer;
	int rc;

	opts->MQTTVersion = version;
	opts->username = option("user");
	opts->password = option("password");
	opts->connectTimeout = WAIT_MS / 1000;
	ssl.trustStore = option("ca");
	ssl.keyStore = option("cert");
	ssl.privateKey = option("key");
	ssl.enableServerCertAuth = ssl.trustStore != NULL;
	if (option("psk") != NULL)
	{
		ssl.ssl_psk_cb = give_key;
		ssl.enabledCipherSuites = "PSK";
		ssl.disableDefaultTrustStore = 1;
	}
	opts->ssl = &ssl;
	if (version == 5)
	{
		MQTTResponse response;

		opts->cleansession = 0;
		opts->cleanstart = 1;
		response = MQTTClient_connect5(client, opts, NULL, NULL);
		rc = response.reasonCode;
		MQTTResponse_free(response);
	}
	else
		rc = MQTTClient_connect(client, opts);
	if (rc != MQTTCLIENT_SUCCESS)
		fail("connect", rc);
}

static void
subscribe(MQTTClient client, int version, const char *topic, int qos)
{
	int rc;

	if (version == 5)
	{
		MQTTResponse response = MQTTClient_subscribe5(client, topic, qos, NULL, NULL);

		rc = (int) response.reasonCode;
		MQTTResponse_free(response);
		if (rc != qos)
			fail("subscribe", rc);
	}
	else if ((rc = MQTTClient_subscribe(client, topic, qos)) != MQTTCLIENT_SUCCESS)
		fail("subscribe", rc);
}

static void
publish(MQTTClient client, int version, const char *topic, int qos, int number)
{
	MQTTClient_message message = MQTTClient_message_initializer;
	MQTTClient_deliveryToken token;
	char payload[32];
	int rc;

	snprintf(payload, sizeof(payload), "m%d", number);
	message.payload = payload;
	message.payloadlen = (int) strlen(payload);
	message.qos = qos;
	if (version == 5)
	{
		MQTTResponse response = MQTTClient_publishMessage5(client, topic, &message, &token);

		rc = response.reasonCode;
		MQTTResponse_free(response);
	}
	else
		rc = MQTTClient_publishMessage(client, topic, &message, &token);
	if (rc != MQTTCLIENT_SUCCESS)
		fail("publish", rc);
	rc = MQTTClient_waitForCompletion(client, token, WAIT_MS);
	if (rc != MQTTCLIENT_SUCCESS)
		fail("acknowledgement", rc);
}

static void
receive(MQTTClient client)
{
	MQTTClient_message *message = NULL;
	char *topic = NULL;
	int len;
	int rc = MQTTClient_receive(client, &topic, &len, &message, WAIT_MS);

	if (rc != MQTTCLIENT_SUCCESS || message == NULL)
		fail("receive", rc);
	printf("%.*s\n", message->payloadlen, (char *) message->payload);
	MQTTClient_freeMessage(&message);
	MQTTClient_free(topic);
}

int
main(int argc, char **argv)
{
	MQTTClient_createOptions create = MQTTClient_createOptions_initializer;
	MQTTClient client;
	int version;
	int qos;
	int count;
	int rc;

	if (argc < 7 || argc > 7 + 16)
		return 2;
	version = atoi(argv[2]);
	qos = atoi(argv[3]);
	count = atoi(argv[6]);
	for (int i = 7; i < argc; i++)
		options[option_count++] = argv[i];
	create.MQTTVersion = version;
	rc = MQTTClient_createWithOptions(&client, argv[1], argv[4], MQTTCLIENT_PERSISTENCE_NONE, NULL, &create);
	if (rc != MQTTCLIENT_SUCCESS)
		fail("create", rc);
	connect_client(client, version);
	subscribe(client, version, argv[5], qos);
	for (int i = 1; i <= count; i++)
		publish(client, version, argv[5], qos, i);
	for (int i = 1; i <= count; i++)
		receive(client);
	rc = version == 5 ? MQTTClient_disconnect5(client, 1000, MQTTREASONCODE_SUCCESS, NULL) : MQTTClient_disconnect(client, 1000);
	if (rc != MQTTCLIENT_SUCCESS)
		fail("disconnect", rc);
	MQTTClient_destroy(&client);
	return 0;
}
