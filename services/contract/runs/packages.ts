import { z } from 'zod';
import { pageQuerySchema, pageSchema } from '../values/page.ts';
import { foreignText, wellFormedText } from '../values/text.ts';

/** `pip` installs for Python, `npm` for JavaScript and TypeScript. */
export const packageManagerSchema = z.enum(['pip', 'npm']).meta({ id: 'PackageManager' });

export type PackageManager = z.infer<typeof packageManagerSchema>;

/**
 * One package to install: a name with an optional version and extras, a URL, or the path of an archive below the
 * working folder. It is data: text that looks like an option of the installer is refused.
 */
export const packageSpecSchema = wellFormedText()
  .min(1)
  .max(300)
  .refine((text) => !/\p{Cc}|\u2028|\u2029/u.test(text), 'must be one line without control characters')
  .refine((text) => !text.startsWith('-'), 'must not begin with -, which would be an option')
  .refine((text) => text.trim() === text, 'must not have spaces around it')
  .meta({ description: 'For example `requests`, `pandas[excel]>=2`, a URL, or `./my.whl` in the working folder.' });

export const packageSpecsSchema = z.array(packageSpecSchema).min(1).max(100);

export const installPackagesSchema = z
  .strictObject({
    manager: packageManagerSchema.optional().meta({ description: 'Default pip.' }),
    packages: packageSpecsSchema,
    timeoutSeconds: z.number().min(0.1).max(3600).optional().meta({ description: 'Default 300.' }),
    detach: z.boolean().optional().meta({ description: 'Respond with 202 at once; read the events later.' }),
  })
  .meta({ id: 'InstallPackages' });

export type InstallPackages = z.infer<typeof installPackagesSchema>;

/** A package as it was installed; the texts come from a box, so they are bounded. */
export const installedPackageSchema = z
  .object({ name: foreignText(300), version: foreignText(300) })
  .meta({ id: 'InstalledPackage' });

/** The packages that an installation added or changed, including dependencies. */
export const installedPackagesSchema = z.array(installedPackageSchema).max(1000);

export type InstalledPackage = z.infer<typeof installedPackageSchema>;

export const packageSchema = z
  .object({
    ...installedPackageSchema.shape,
    source: z.enum(['image', 'user']).meta({ description: 'Whether it came with the box or was installed in it.' }),
  })
  .meta({ id: 'Package' });

export type Package = z.infer<typeof packageSchema>;

export const packagePageSchema = pageSchema('PackagePage', packageSchema);

export const packageQuerySchema = pageQuerySchema.extend({ manager: packageManagerSchema.default('pip') });

export type PackageQuery = z.infer<typeof packageQuerySchema>;

/** The installation that would help a program that failed because a module is missing. */
export const packageHintSchema = z
  .object({
    code: z.literal('install_package'),
    manager: packageManagerSchema,
    package: foreignText(300).meta({ description: 'What to install: `packages: [package]`.' }),
    module: foreignText(300).meta({ description: 'The module that the program imports.' }),
    detail: foreignText(1000),
  })
  .meta({ id: 'PackageHint' });

/** Packages whose versions exclude each other, or one that the kernels run on, of which a box has only the version of the image. */
export const conflictHintSchema = z
  .object({
    code: z.literal('package_conflict'),
    manager: packageManagerSchema,
    package: foreignText(300),
    version: foreignText(300).optional().meta({ description: 'The only version that this box can have.' }),
    detail: foreignText(1000),
  })
  .meta({ id: 'PackageConflictHint', description: 'The installer refused the versions of packages.' });

/** A package that was installed in place of the one of the image, or that a loaded library has looked for in vain. */
export const restartHintSchema = z
  .object({
    code: z.literal('restart_kernel'),
    manager: packageManagerSchema,
    package: foreignText(300),
    version: foreignText(300)
      .optional()
      .meta({ description: 'The version of the image, which running kernels may still use, if it has the package.' }),
    detail: foreignText(1000),
  })
  .meta({
    id: 'RestartKernelHint',
    description: 'Kernels that run do not use a package that the box has now: they need a restart.',
  });

/** A library of the system that a program could not load, because the image does not have it. */
export const libraryHintSchema = z
  .object({
    code: z.literal('missing_library'),
    library: foreignText(300).meta({ description: 'The file or the name of the library, such as `libpango-1.0-0`.' }),
    detail: foreignText(1000),
  })
  .meta({ id: 'MissingLibraryHint', description: 'The program needs a library of the system that its image lacks.' });

/** A hint that may be absent. Unknown ones, which a newer gateway or box may have, are dropped: what they belong to remains. */
const orUnknown = <S extends z.ZodType>(hint: S) =>
  z.preprocess((value) => (value === null || hint.safeParse(value).success ? value : undefined), hint.optional());

/** What the caller of an installer should know. */
export const installationHintSchema = orUnknown(
  z.discriminatedUnion('code', [conflictHintSchema, restartHintSchema]).meta({ id: 'InstallationHint' }),
);

/** What would help a program that failed. */
export const hintSchema = orUnknown(
  z
    .discriminatedUnion('code', [packageHintSchema, conflictHintSchema, restartHintSchema, libraryHintSchema])
    .meta({ id: 'Hint' }),
);
