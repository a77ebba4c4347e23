CREATE TABLE "template_languages" (
	"site" text NOT NULL,
	"template" text NOT NULL,
	"revision" text NOT NULL,
	"languages" text[] NOT NULL,
	CONSTRAINT "template_languages_site_template_pk" PRIMARY KEY("site","template")
);
